"""`--budget`: seed by seed over experiments, what takes least first; records of as many seeds as are stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer
from papers.catalogue import EXPERIMENTS
from papers.cited import BAEK
from papers.estimates import RATES, Rate, beyond, kind, passed, seconds, told
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner, recipe_of
from papers.planning import by_seed, complete, expected, left, plan
from papers.printed_line import accuracy
from papers.run_store import ROOM, RunStore, StoredLine, read_lines
from papers.tasks import Task, missing
from typer.testing import CliRunner

from papers import accumulate, estimates, experiment_runner, performing, rates, record
from sordino.apart import processes
from sordino.cli.reproduce import reproduce
from sordino.data.catalogue import DATASETS
from sordino.runs.setup import load

SMALL = ["mechanism.name=dp_fedavg", "partition.clients=30", "select.kind=poisson", "select.rate=0.5"]


def a_figure(id_: str, rounds: int, seeds: int = 3) -> Experiment:
    def find(runner: ExperimentRunner) -> ExperimentResult:
        runs = runner.play({"a": [*SMALL, f"run.rounds={rounds}"], "b": [*SMALL, f"run.rounds={rounds + 1}"]})
        return ExperimentResult((accuracy("a", 0.9, *runs["a"].last()), accuracy("b", 0.9, *runs["b"].last())))

    return Experiment(id_, BAEK, "Fig. 0", "a figure", find, seeds=seeds)


def a_runner(folder: Path) -> ExperimentRunner:
    return ExperimentRunner(folder / "unfinished", False, 1, store=RunStore(folder / "runs"))


def test_seeds_come_one_after_the_other_of_each_first_what_takes_least(tmp_path: Path) -> None:
    runner = a_runner(tmp_path)
    order = [(task.recipe.run.seed, task.recipe.run.rounds) for task in
             by_seed([a_figure("long", 8), a_figure("short", 1, seeds=2), a_figure("middle", 4)], runner)]  # fmt: skip
    assert order == [(0, 1), (0, 2), (0, 4), (0, 5), (0, 8), (0, 9), (1, 1), (1, 2), (1, 4), (1, 5), (1, 8), (1, 9),
                     (2, 4), (2, 5), (2, 8), (2, 9)]  # fmt: skip


def test_what_two_cores_cannot_do_in_three_hours_comes_after_every_seed_of_the_others(tmp_path: Path) -> None:
    def find(runner: ExperimentRunner) -> ExperimentResult:
        one = ["mechanism.name=fedavg", "data.name=mnist", "model.name=cnn_tfp", "run.rounds=5000"]
        return ExperimentResult((accuracy("a", 0.9, *runner.play({"a": one})["a"].last()),))

    runner, long = a_runner(tmp_path), Experiment("long", BAEK, "Fig. 0", "a figure", find)
    assert beyond(left(long, runner)) and not beyond(left(a_figure("short", 1), runner))
    order = [(task.recipe.run.rounds, task.recipe.run.seed) for task in by_seed([long, a_figure("short", 1)], runner)]
    assert order == [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2), (5000, 0), (5000, 1), (5000, 2)]


def test_every_network_that_is_trained_has_a_rate_and_the_command_a_recipe_to_measure_it_by() -> None:
    figures = [one for one in EXPERIMENTS.values() if one.kind == "training"]
    runner = ExperimentRunner(Path(), False, seeds=1)  # a plan is made once, and no other test asks for this one
    kinds = {kind(task.recipe) for one in figures for task in plan(one, runner)}
    assert kinds == set(RATES)
    for name in RATES:
        assert kind(rates.representative(name)) == name


def test_a_rate_is_what_runs_took_that_differ_by_rounds_and_by_how_often_they_are_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = Rate(0.001, 0.002, 3.0)

    def played(tasks: list[Task], store: RunStore, *_: object) -> None:
        for task in tasks:
            rounds, every = task.recipe.run.rounds, task.recipe.run.evaluate_every
            looks = rounds // every * estimates.tested(task.recipe)
            cpu = true.begin + rounds * passed(task.recipe) * true.trained + looks * true.tested
            key, of = store.keys(task.what, task.recipe)
            store.lines[key] = StoredLine(key, of, task.what, 0, "", cpu, {})

    monkeypatch.setattr(rates, "perform", played)
    assert rates.measured("svm", tmp_path) == true


def test_runs_are_played_by_processes_that_keep_freed_memory_unless_the_user_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str | None]] = []

    def looked(jobs: int, begin: Callable[..., None], *given: object) -> object:
        seen.append({name: os.environ.get(name) for name in performing.MEMORY})
        return processes(jobs, begin, *given)

    for name in performing.MEMORY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    monkeypatch.setattr(performing, "processes", looked)
    performing.perform([], RunStore(), tmp_path, 2, lambda done, total: None)
    assert seen == [{**performing.MEMORY, "MALLOC_TOP_PAD_": "1"}]
    assert {name for name in performing.MEMORY if name in os.environ} == {"MALLOC_TOP_PAD_"}


def test_what_two_figures_share_is_planned_once(tmp_path: Path) -> None:
    both = by_seed([a_figure("one", 1, 1), a_figure("other", 2, 1)], a_runner(tmp_path))
    assert [task.recipe.run.rounds for task in both] == [1, 2, 3]


def test_time_brings_experiments_forward_and_a_record_has_the_seeds_that_are_there(tmp_path: Path) -> None:
    figure, runner = a_figure("f", 1, seeds=2), a_runner(tmp_path)
    assert accumulate.as_far_as_it_is(figure, runner) is None and complete(figure, runner) == 0
    first = [task for task in plan(figure, runner) if task.recipe.run.seed == 0]
    runner.do(first[:1])
    assert complete(figure, runner) == 0
    runner.do(first)
    assert complete(figure, runner) == 1
    some = accumulate.as_far_as_it_is(figure, runner)
    assert some is not None and record.run(figure, some, tmp_path).seeds == 1
    assert "2 of 2 runs played" in accumulate.within(5, [figure], runner)
    assert complete(figure, runner) == 2 and left(figure, runner) == 0
    assert "0 of 0 runs played" in accumulate.within(5, [figure], runner)
    assert len(list(read_lines(tmp_path / "runs"))) == 4


def test_a_record_of_stored_runs_is_that_of_fresh_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, runner = a_figure("f", 1, seeds=2), a_runner(tmp_path)
    fresh = record.run(figure, runner, tmp_path / "fresh")
    monkeypatch.setattr(experiment_runner, "perform", lambda *_: pytest.fail("it is there"))
    stored = record.run(figure, a_runner(tmp_path), tmp_path / "stored")
    assert stored == fresh and (fresh.scale, fresh.seeds) == ("full", 2) and fresh.seconds


def test_a_task_takes_what_another_seed_of_it_took(tmp_path: Path) -> None:
    figure, runner = a_figure("f", 1, seeds=2), a_runner(tmp_path)
    tasks = plan(figure, runner)
    guess = expected(tasks[1], runner.store)
    runner.do(tasks[:1])
    (line,) = runner.store.lines.values()
    assert tasks[1].recipe.run.seed == 1 and expected(tasks[1], runner.store) == line.cpu != guess
    assert expected(tasks[2], runner.store) == seconds("run", tasks[2].recipe)


def test_more_records_rounds_and_steps_take_longer() -> None:
    plain = ["mechanism.name=fedavg", "data.name=mnist", "model.name=cnn_xue", "partition.clients=50", "run.rounds=4"]
    base = seconds("run", recipe_of([*plain, "train.batch_size=75", "train.steps=16"]))
    for more in (["run.rounds=8"], ["train.steps=32"], ["train.batch_size=150"]):
        assert seconds("run", recipe_of([*plain, "train.batch_size=75", "train.steps=16", *more])) > 1.5 * base
    few = recipe_of([*plain, "train.batch_size=75", "train.steps=16", "select.kind=fixed", "select.size=5"])
    assert seconds("run", few) < 0.5 * base
    assert seconds("moved", few) == 4 * seconds("run", few) and seconds("membership/3/2", few) == 2.5 * seconds(
        "run", few
    )
    assert seconds("distances/4", few) == pytest.approx(base)  # of everybody
    assert (told(30), told(600), told(7200)) == ("30 s", "10 minutes", "2.0 hours")


def test_a_process_that_plays_many_runs_gives_each_its_records_as_they_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(performing, "live_with_parent", lambda: None)
    for name, data in DATASETS.items():
        monkeypatch.setitem(DATASETS, name, data)  # put back afterwards
    plain = load(recipe_of(["mechanism.name=fedavg", "data.name=digits", "data.normalise=none"])).train_x.clone()
    threads = torch.get_num_threads()
    performing._begin()
    torch.set_num_threads(threads)
    for scaled in ("standard", "none", "standard"):
        settings = ["mechanism.name=fedavg", "data.name=digits", f"data.normalise={scaled}"]
        found = load(recipe_of(settings)).train_x
        assert torch.equal(found, plain) == (scaled == "none"), scaled


COMMITTED = [id_ for id_, one in EXPERIMENTS.items() if one.kind == "training" and not id_.startswith("yuan-fig")]


@pytest.mark.parametrize("id_", COMMITTED)
def test_records_whose_runs_are_stored_say_what_those_say(
    id_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = record.kept(ROOM.parent / "records", [id_]).get(id_)
    if found is None:
        pytest.skip("no record yet")
    store = RunStore(ROOM)
    runner = ExperimentRunner(tmp_path, found.scale == "quick", seeds=found.seeds, store=store)
    runner = replace(runner, quick_cifar=bool(found.short))
    if missing(plan(EXPERIMENTS[id_], runner), store):
        pytest.skip("recorded before runs were stored")
    monkeypatch.setattr(experiment_runner, "perform", lambda *_: pytest.fail("it is there"))
    assert record.run(EXPERIMENTS[id_], runner, tmp_path).lines == found.lines


def invoke(*arguments: str) -> object:
    app = typer.Typer()
    app.command()(reproduce)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_the_command_plays_what_fits_and_shows_what_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "f", a_figure("f", 1, seeds=1))
    lines: Callable[[], int] = lambda: len(list(read_lines(tmp_path / "runs")))  # noqa: E731
    invoke("f", "--budget", "0", "--out", str(tmp_path))
    assert lines() == 0 and not (tmp_path / "f.json").exists()
    invoke("f", "--budget", "5", "--jobs", "1", "--out", str(tmp_path))
    assert lines() == 2 and record.read(tmp_path / "f.json").size() == "full, one seed"
    invoke("f", "--full", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path))
    assert lines() == 4 and record.read(tmp_path / "f.json").seeds == 2
    invoke("f", "--full", "--seeds", "2", "--jobs", "1", "--again", "--out", str(tmp_path))
    assert lines() == 4

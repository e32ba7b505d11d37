"""Finished runs accumulate: none is played twice, none is lost, and what is judged is what is stored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from papers.experiment_runner import ExperimentRunner, recipe_of
from papers.performing import TimeLimit, perform
from papers.run_store import DEFAULTS, ROOM, RunStore, StoredLine, code_version, merge, read_lines
from papers.tasks import Task, by_round, condensed, missing, played, rounded

from papers import experiment_runner, run_store

SMALL = ["mechanism.name=dp_fedavg", "partition.clients=30", "select.kind=poisson", "select.rate=0.5", "run.rounds=2"]


def a_line(key: str, code: str = "0+a", cpu: float = 1.0) -> StoredLine:
    return StoredLine(key, f"of {key}", "run", 0, code, cpu, {"rounds": 1, "accuracy": 0.5})


def task(seed: int, *more: str) -> Task:
    return Task(recipe_of([*SMALL, *more, f"run.seed={seed}"]))


def lines(folder: Path) -> list[str]:
    return [line.key for line in read_lines(folder)]


def test_a_run_is_known_by_what_was_played_and_not_by_how_it_was_said() -> None:
    store = RunStore()
    key, of = store.keys("run", recipe_of(SMALL))
    assert store.keys("run", recipe_of([*SMALL, "run.evaluate_every=1"])) == (key, of)
    other = store.keys("run", recipe_of([*SMALL, "run.seed=1"]))
    assert other[0] != key and other[1] == of
    for more in (["run.rounds=3"], ["mechanism.clip_norm=2.5"], ["data.name=iris"], ["budget.epsilon=none"]):
        assert of not in store.keys("run", recipe_of([*SMALL, *more]))
    assert key not in store.keys("distances/4", recipe_of(SMALL))


def test_a_default_that_changes_is_another_run_and_a_new_setting_is_none(tmp_path: Path) -> None:
    recipe = recipe_of(SMALL)
    key = RunStore().keys("run", recipe)[0]
    (tmp_path / DEFAULTS).write_text(json.dumps({"train.learning_rate": recipe.train.learning_rate}))
    assert RunStore(tmp_path).keys("run", recipe)[0] == key
    (tmp_path / DEFAULTS).write_text(json.dumps({"train.learning_rate": 123.0}))
    assert RunStore(tmp_path).keys("run", recipe)[0] != key


def test_runs_are_played_once_shared_between_figures_and_the_same_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = ExperimentRunner(tmp_path / "unfinished", quick=True, seeds=2, store=RunStore(tmp_path / "runs"))
    first = runner.play({"a": SMALL, "the same": SMALL})
    assert first["a"] == first["the same"] and len(lines(tmp_path / "runs")) == 2
    assert not list((tmp_path / "unfinished").iterdir())
    monkeypatch.setattr(experiment_runner, "perform", lambda *_: pytest.fail("it is there"))
    later = replace(runner, store=RunStore(tmp_path / "elsewhere", tmp_path / "runs"))
    again = later.play({"b": SMALL})["b"]
    assert again == first["a"] and len(lines(tmp_path / "runs")) == 2
    finals = [view.rounds[-1]["accuracy"] for view in again.views]
    assert again.last()[0] == pytest.approx(sum(finals) / 2)
    assert again.best("loss")[0] <= again.last("loss")[0]


@pytest.mark.parametrize("every", [1, 2, 7])
def test_a_line_says_what_the_runs_own_metrics_say(every: int, tmp_path: Path) -> None:
    recipe = recipe_of([*SMALL, "run.rounds=7", f"run.evaluate_every={every}", "dropout.rate=0.2"])
    played(recipe, tmp_path / "run")
    told = [json.loads(text) for text in (tmp_path / "run" / "private" / "metrics.jsonl").read_text().splitlines()]
    found = by_round(json.loads(json.dumps(condensed(tmp_path / "run"))))
    assert [line["round"] for line in found] == [1, 2, 3, 4, 5, 6, 7]
    for mine, theirs in zip(found, told, strict=True):
        for name in ("accuracy", "loss", "survivors", "noise_stddev"):
            assert mine[name] == (None if theirs[name] is None else pytest.approx(theirs[name], rel=1e-5))
        assert mine["knobs"]["noise_multiplier"] == pytest.approx(theirs["knobs"]["noise_multiplier"], rel=1e-5)


def test_a_loss_that_was_not_finite_is_no_number_and_one_that_was_not_measured_is_none() -> None:
    found = by_round({"rounds": 3, "accuracy": [0.5, None, 0.1], "loss": [1.0, None, None]})
    assert found[1]["loss"] is None and found[2]["loss"] != found[2]["loss"]
    assert rounded(float("inf"), 4) is None and rounded(1 / 3, 4) == 0.3333 and rounded(40.0, 4) == 40


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_fails_is_told_and_the_rest_is_kept(jobs: int, tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    wrong = task(0, "select.kind=fixed", "select.size=90")
    why = perform([wrong, task(0)], store, tmp_path, jobs, lambda done, total: None)
    assert why is not None and "select.size is 90" in why
    assert lines(tmp_path / "runs") == [store.keys("run", task(0).recipe)[0]]


def test_an_interrupt_loses_nothing_that_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, tasks, done = RunStore(tmp_path / "runs"), [task(seed) for seed in range(3)], Task.done

    def interrupted(self: Task, place: Path) -> object:
        if self.recipe.run.seed == 1:
            raise KeyboardInterrupt
        return done(self, place)

    with monkeypatch.context() as patch:
        patch.setattr(Task, "done", interrupted)
        with pytest.raises(KeyboardInterrupt):
            perform(tasks, store, tmp_path, 1, lambda done, total: None)
    later = RunStore(tmp_path / "runs")
    assert [one.recipe.run.seed for one in missing(tasks, later)] == [1, 2]
    perform(missing(tasks, later), later, tmp_path, 1, lambda done, total: None)
    assert len(lines(tmp_path / "runs")) == len(set(lines(tmp_path / "runs"))) == 3


PLAYS = """
import sys
from pathlib import Path
from papers.experiment_runner import ExperimentRunner
from papers.run_store import RunStore
if __name__ == "__main__":
    out = Path(sys.argv[1])
    runner = ExperimentRunner(out / "unfinished", False, 2, 4, store=RunStore(out / "runs"))
    runner.play({"": sys.argv[2:]})
"""


def test_a_command_that_is_killed_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "plays.py"
    script.write_text(PLAYS)
    command = [sys.executable, str(script), str(tmp_path), *SMALL]
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}  # `papers` is not installed
    with subprocess.Popen(command, env=here) as process:
        while process.poll() is None and not lines(tmp_path / "runs"):
            time.sleep(0.05)
        process.kill()
    before = lines(tmp_path / "runs")
    assert 0 < len(before) <= 4
    subprocess.run(command, check=True, env=here)
    after = lines(tmp_path / "runs")
    assert after[: len(before)] == before and len(after) == len(set(after)) == 4


def test_a_line_that_was_cut_off_is_played_again_and_spoils_no_other(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.add(a_line("a"), "fedavg")
    path = tmp_path / "fedavg.jsonl"
    path.write_text(path.read_text() + a_line("b").to_json()[:-20])
    store = RunStore(tmp_path)
    assert set(store.lines) == {"a"}
    store.add(a_line("b"), "fedavg")
    assert set(RunStore(tmp_path).lines) == {"a", "b"}


def test_again_plays_what_other_sources_played_and_the_later_line_counts(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    perform([task(0)], store, tmp_path, 1, lambda done, total: None)
    assert missing([task(0)], store) == missing([task(0)], store, again=True) == []
    (old,) = store.lines.values()
    store.add(replace(old, code="0+before", found={"rounds": 1, "accuracy": 0.5}), "dp_fedavg")
    assert not missing([task(0)], store) and missing([task(0)], store, again=True) == [task(0)]
    perform([task(0)], store, tmp_path, 1, lambda done, total: None)
    (now,) = RunStore(tmp_path / "runs").lines.values()
    assert now.found == old.found and now.code == code_version()


def test_merging_keeps_one_line_a_key_the_new_before_the_old(tmp_path: Path) -> None:
    here, there = tmp_path / "new", tmp_path / "papers" / "runs"
    for key in "ab":
        RunStore(there).add(a_line(key), "fedavg")
    for key in "bc":
        RunStore(here).add(a_line(key, "1+b"), "fedavg")
    merge(here, there)
    kept = {line.key: line.code for line in read_lines(there)}
    assert lines(there) == ["a", "b", "c"] and kept == {"a": "0+a", "b": "1+b", "c": "1+b"}
    assert json.loads((there / DEFAULTS).read_text())["run.rounds"] == recipe_of(["mechanism.name=fedavg"]).run.rounds
    before = {path: path.read_bytes() for path in there.iterdir()}
    merge(here, there)
    assert {path: path.read_bytes() for path in there.iterdir()} == before
    merge(there, there)
    assert lines(there) == ["a", "b", "c"]


def test_with_a_time_limit_what_would_not_end_is_not_begun(tmp_path: Path) -> None:
    store, tasks = RunStore(tmp_path / "runs"), [task(0, "run.rounds=3"), task(0)]
    costs = {3: 1e9, 2: 0.1}
    why = perform(
        tasks, store, tmp_path, 2, lambda done, total: None, TimeLimit(5), lambda t: costs[t.recipe.run.rounds]
    )
    assert why is None and lines(tmp_path / "runs") == [store.keys("run", task(0).recipe)[0]]
    perform(tasks, store, tmp_path, 2, lambda done, total: None, TimeLimit(0), lambda t: 1.0)
    assert len(lines(tmp_path / "runs")) == 1


def test_a_limit_learns_how_much_of_a_core_it_gets() -> None:
    limit = TimeLimit(1)
    assert limit.fits(50) and not limit.fits(70)
    limit.learn(cpu=1, clock=4)
    assert limit.fits(10) and not limit.fits(20)


def test_sources_have_one_version() -> None:
    assert code_version() == run_store.code_version.__wrapped__()
    assert code_version().startswith(run_store.__version__)


def test_the_repositorys_runs_are_small_and_each_is_there_once() -> None:
    assert sum(path.stat().st_size for path in ROOM.iterdir()) < 4_000_000
    every = lines(ROOM)
    assert len(every) == len(set(every))
    for path in ROOM.glob("*.jsonl"):
        told = [StoredLine(**json.loads(text)).to_json() for text in path.read_text(encoding="utf-8").splitlines()]
        assert "\n".join(told) + "\n" == path.read_text(encoding="utf-8"), path.name

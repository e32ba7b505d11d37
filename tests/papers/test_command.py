from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from papers.bench import Bench
from papers.catalogue import EXPERIMENTS
from papers.line import statement
from papers.record import Record
from typer.testing import CliRunner

from papers import document, record
from sordino.cli.reproduce import reproduce
from sordino.errors import RecipeError, SordinoError

SMALL = ["mechanism.name=dp_fedavg", "partition.clients=30", "select.kind=poisson", "select.rate=0.5", "run.rounds=2"]


def invoke(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(reproduce)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_printed_and_ours_come_out_with_a_verdict_and_a_page(tmp_path: Path) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    told = json.loads(invoke("baek-table2", "--out", str(out), "--docs", str(docs), "--json").stdout)
    assert [row["id"] for row in told] == ["baek-table2"]
    page = (docs / "reproduction.md").read_text()
    assert "| ε after 1,000 rounds, 10% dropout | 2.855 | 2.855 | equal |  |" in page
    assert (docs / "img" / "reproduction" / "baek-table2.svg").exists()
    assert "(img/reproduction/baek-table2.svg)" in page
    assert "Not run for this page: `baek-fig1`" in page


def test_every_id_is_listed() -> None:
    assert [row["id"] for row in json.loads(invoke("--list", "--json").stdout)] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["baek-fig99"], "is no table or figure"),
        ([], "nothing to reproduce"),
        (["baek-table2", "--list"], "exclude each other"),
        (["--exact", "--all"], "exclude each other"),
        (["nope", "--exact"], "exclude each other"),
        (["baek-table2", "--quick-cifar"], "--quick-cifar is for --full"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: list[str], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        invoke(*arguments)


def test_runs_are_played_once_and_shared_between_figures(tmp_path: Path) -> None:
    bench = Bench(tmp_path, quick=True, seeds=2)
    first = bench.play({"a": SMALL, "the same": SMALL})
    assert first["a"].views[0].path == first["the same"].views[0].path
    assert len(list(tmp_path.iterdir())) == 2
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/metrics.jsonl")}
    again = bench.play({"a": SMALL})["a"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/metrics.jsonl")} == before
    finals = [view.rounds[-1]["accuracy"] for view in again.views]
    assert again.last()[0] == pytest.approx(sum(finals) / 2)
    assert again.best("loss")[0] <= again.last("loss")[0]


def test_a_run_that_cannot_be_played_says_why(tmp_path: Path) -> None:
    with pytest.raises(SordinoError, match=r"select\.size is 90"):
        Bench(tmp_path, quick=True).play({"a": [*SMALL, "select.kind=fixed", "select.size=90"]})


def a_record(
    scale: str = "quick", pictures: tuple[tuple[str, str], ...] = (), ours: str = "d", short: tuple[str, ...] = ()
) -> Record:
    return Record("baek-fig1", scale, 1, 1.5, "0", (statement("a", "b|c", ours, True),), ("e",), pictures, short)


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    found = a_record()
    record.write(tmp_path, found)
    assert record.kept(tmp_path, EXPERIMENTS) == {"baek-fig1": found}
    page = document.write(tmp_path, {"baek-fig1": found}, EXPERIMENTS, tmp_path).read_text()
    assert r"| a | b\|c | d | equal |  |" in page and "Chosen where the paper is silent" in page
    assert (
        "| Baek, Kim, Nam, Park (2021) | 1 | 1 | 0 | 0 | 0 | 0 |" in page
        and "Quick: one seed, 4 of 100 rounds." in page
    )


def test_a_full_record_says_which_data_were_left_quick(tmp_path: Path) -> None:
    record.write(tmp_path, a_record("full", short=("CIFAR-10",)))
    page = document.page(list(record.kept(tmp_path, EXPERIMENTS).values()), EXPERIMENTS)
    assert "Full: one seed; quick on CIFAR-10: one seed, 4 of 100 rounds." in page


def test_a_page_keeps_what_was_found_before_and_a_quick_run_replaces_no_full_one(tmp_path: Path) -> None:
    docs, images = tmp_path / "docs", tmp_path / "docs" / "img" / "reproduction"
    for key in ("old", "new"):
        (tmp_path / f"{key}.svg").write_text(key)
    document.write(docs, {"baek-fig1": a_record(pictures=(("old", "t"),))}, EXPERIMENTS, tmp_path)
    document.write(docs, {"baek-fig1": a_record("full", (("new", "t"),), "ours")}, EXPERIMENTS, tmp_path)
    assert [path.name for path in images.iterdir()] == ["new.svg"]
    page = document.write(docs, {"baek-fig1": a_record()}, EXPERIMENTS, tmp_path).read_text()
    assert "| ours |" in page and "Full: one seed." in page
    assert document.write(docs, {}, EXPERIMENTS, tmp_path).read_text() == page


def test_the_page_of_the_five_papers_is_that_of_its_records() -> None:
    docs = Path(__file__).parents[2] / "docs"
    records = record.kept(docs / "reproduction", EXPERIMENTS)
    assert list(records) == list(EXPERIMENTS)
    assert document.page(list(records.values()), EXPERIMENTS) == (docs / "reproduction.md").read_text(encoding="utf-8")
    shown = {f"{key}.svg" for one in records.values() for key, _ in one.pictures}
    assert shown == {path.name for path in (docs / "img" / "reproduction").iterdir()}


def test_what_differs_has_a_reason_and_says_what_a_quick_run_leaves_out() -> None:
    experiment = EXPERIMENTS["baek-fig1"]
    bare, told = statement("a", "b", "c", False), statement("a", "b", "c", False, "a reason of its own")
    assert experiment.explained(bare, quick=False).why == experiment.doubt
    assert experiment.explained(bare, quick=True).why == f"quick: {experiment.shorter}; {experiment.doubt}"
    assert experiment.explained(told, quick=True) == told
    assert experiment.explained(statement("a", "b", "c", True), quick=True).why == ""

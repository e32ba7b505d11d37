from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from click.testing import Result
from papers.catalogue import EXPERIMENTS
from papers.estimates import beyond
from papers.experiment_runner import ExperimentRunner
from papers.nothing_to_run import NOTHING_TO_RUN
from papers.printed_line import statement
from papers.quoted import quoted
from papers.record import ExperimentRecord
from papers.run_store import ROOM, RunStore
from typer.testing import CliRunner

from papers import catalogue, pages, record
from sordino.cli.reproduce import reproduce
from sordino.errors import RecipeError, SordinoError

FEW = {"baek-fig1": EXPERIMENTS["baek-fig1"]}
SMALL = ["mechanism.name=dp_fedavg", "partition.clients=30", "select.kind=poisson", "select.rate=0.5", "run.rounds=2"]


def invoke(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(reproduce)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_printed_and_ours_come_out_with_a_verdict_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {id_: EXPERIMENTS[id_] for id_ in ("baek-table2", "baek-fig1")}  # pages of all are looked at below
    monkeypatch.setattr(catalogue, "EXPERIMENTS", few)
    out, docs = tmp_path / "out", tmp_path / "docs"
    told = json.loads(invoke("baek-table2", "--out", str(out), "--docs", str(docs), "--json").stdout)
    assert [row["id"] for row in told] == ["baek-table2"]
    page = (docs / "papers" / "baek.md").read_text()
    assert "| ε after 1,000 rounds, 10% dropout | 2.855 | 2.855 | equal |  |" in page
    assert (docs / "img" / "reproduction" / "baek-table2.svg").exists()
    assert '<img src="../img/reproduction/baek-table2.svg"' in page
    assert "| baek-fig1 | Fig. 1, §VI-A-1 | Effect of DP noise on MNIST | not yet |" in page
    summary = (docs / "papers" / "README.md").read_text()
    assert "[baek-fig1](baek.md) | nothing |" in summary and "baek-table2](" not in summary
    assert (tmp_path / "papers" / "records" / "baek-table2.json").exists()


def test_every_id_is_listed_and_every_numbered_item_without_one() -> None:
    rows = json.loads(invoke("--list", "--json").stdout)
    assert [row["id"] for row in rows if row["id"]] == list(EXPERIMENTS)
    without = {(row["paper"], row["place"]) for row in rows if not row["id"]}
    assert without == {(item.paper.authors, item.place) for item in NOTHING_TO_RUN}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["baek-fig99"], "is no table or figure"),
        ([], "nothing to reproduce"),
        (["baek-table2", "--list"], "exclude each other"),
        (["--exact", "--all"], "exclude each other"),
        (["nope", "--exact"], "exclude each other"),
        (["baek-table2", "--quick-cifar"], "--quick-cifar is for --full"),
        (["--exact", "--budget", "5"], "--budget is for ids that train"),
        (["--list", "--budget", "5"], "--budget is for ids that train"),
        (["baek-fig1", "--budget", "inf"], "name a number of minutes"),
        (["baek-fig1", "--budget", "nan"], "name a number of minutes"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: list[str], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        invoke(*arguments)


def test_a_run_that_cannot_be_played_says_why(tmp_path: Path) -> None:
    with pytest.raises(SordinoError, match=r"select\.size is 90"):
        ExperimentRunner(tmp_path, quick=True).play({"a": [*SMALL, "select.kind=fixed", "select.size=90"]})


def a_record(
    scale: str = "quick", pictures: tuple[tuple[str, str], ...] = (), ours: str = "d", short: tuple[str, ...] = ()
) -> ExperimentRecord:
    return ExperimentRecord(
        "baek-fig1", scale, 1, 1.5, "0", (statement("a", "b|c", ours, True),), ("e",), pictures, short
    )


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    found = a_record()
    record.write(tmp_path, found)
    assert record.kept(tmp_path, EXPERIMENTS) == {"baek-fig1": found}
    told = pages.pages({"baek-fig1": found}, FEW, RunStore())
    assert r"| a | b\|c | d | equal |  |" in told["baek.md"] and "Chosen where the paper is silent" in told["baek.md"]
    assert "Quick: one seed, 4 of 100 rounds." in told["baek.md"]
    row = next(line for line in told["README.md"].splitlines() if line.startswith("| [Baek, Kim"))
    assert row.endswith("| 1 | 0 | 0 | 0 | 0 | 0 |")


def test_introductions_quote_their_records() -> None:
    text, found = "a {baek-fig1: a}, {baek-fig1}, {baek-fig2: a}, v_{t} and {2t}", {"baek-fig1": a_record(ours="9 %")}
    assert quoted(text, found) == "a 9 %, quick, one seed, not run yet, v_{t} and {2t}"
    with pytest.raises(SordinoError, match="quotes 'b' of baek-fig1"):
        quoted("{baek-fig1: b}", found)


def test_a_full_record_says_which_data_were_left_quick() -> None:
    page = pages.pages({"baek-fig1": a_record("full", short=("CIFAR-10",))}, FEW, RunStore())["baek.md"]
    assert "Full: one of 3 seeds; quick on CIFAR-10: one seed, 4 of 100 rounds." in page


def test_pages_keep_what_was_found_before_and_a_quick_run_replaces_no_full_one(tmp_path: Path) -> None:
    docs, images = tmp_path / "docs", tmp_path / "docs" / "img" / "reproduction"
    (tmp_path / "pictures").mkdir()
    for key in ("old", "new"):
        (tmp_path / "pictures" / f"{key}.svg").write_text(key)
    pages.write(docs, {"baek-fig1": a_record(pictures=(("old", "t"),))}, FEW, tmp_path)
    pages.write(docs, {"baek-fig1": a_record("full", (("new", "t"),), "ours")}, FEW, tmp_path)
    assert [path.name for path in images.iterdir()] == ["new.svg"]
    pages.write(docs, {"baek-fig1": a_record()}, FEW, tmp_path)
    page = (docs / "papers" / "baek.md").read_text()
    assert "| ours |" in page and "Full: one of 3 seeds." in page
    pages.write(docs, {}, FEW, tmp_path)
    assert (docs / "papers" / "baek.md").read_text() == page


def test_the_pages_of_the_five_papers_are_those_of_their_records() -> None:
    root = Path(__file__).parents[2]
    records = record.kept(root / "papers" / "records", EXPERIMENTS)
    assert {path.stem for path in (root / "papers" / "records").iterdir()} == set(records)
    told = pages.pages(records, EXPERIMENTS, RunStore(ROOM))
    there = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs" / "papers").iterdir()}
    assert there == told
    shown = {f"{key}.svg" for one in records.values() for key, _ in one.pictures}
    assert shown == {path.name for path in (root / "docs" / "img" / "reproduction").iterdir()}


def test_nothing_is_left_out_without_its_estimate() -> None:
    root = Path(__file__).parents[2]
    records = record.kept(root / "papers" / "records", EXPERIMENTS)
    summary = (root / "docs" / "papers" / "README.md").read_text(encoding="utf-8")
    for id_, experiment in EXPERIMENTS.items():
        found = records.get(id_)
        waits = found is None or not found.whole(experiment)
        rows = [line for line in summary.splitlines() if line.startswith(f"| [{id_}](")]
        assert bool(rows) == waits, id_
        assert not waits or re.search(r"\| [\d.]+ (s|minutes|hours) \|$", rows[0]), f"{id_}: nobody says what it takes"
        for line in found.lines if found else ():
            assert line.status != "not run" or line.why.startswith("a run ends before") or waits, line.quantity


def test_what_is_left_is_in_the_order_of_what_it_takes_and_says_what_is_too_much() -> None:
    root = Path(__file__).parents[2]
    records, store = record.kept(root / "papers" / "records", EXPERIMENTS), RunStore(ROOM)
    told = pages.pages(records, EXPERIMENTS, store)
    before, _, after = told["README.md"].partition("## What is not full yet")[2].partition("**More than two cores")
    rows = {id_: re.findall(r"^\| \[([\w-]+)\]", part, re.M) for id_, part in (("within", before), ("beyond", after))}
    takes = {id_: pages.left_of(EXPERIMENTS[id_], store) for part in rows.values() for id_ in part}
    assert list(takes) == sorted(takes, key=lambda id_: takes[id_])
    assert {id_ for id_, seconds in takes.items() if beyond(seconds)} == set(rows["beyond"])
    for id_ in rows["beyond"]:
        if id_ in records:
            (own,) = re.findall(rf"^### {id_}$\n\n(.+)$", told[f"{EXPERIMENTS[id_].paper.page}.md"], re.M)
            assert own.endswith("hours of one core, more than two do in three hours."), id_


NUMBERED = {
    "Baek": "Table 1-2 Fig. 1-5 Definition 1-3 Theorem 1-1 Proposition 1-2 Algorithm 1-3",
    "Xue": "Table 1-2 Fig. 1-5 Definition 1-3 Lemma 1-8 Theorem 1-3 Algorithm 1-4 Eq. 1-13",
    "Zhao": "Table 1-2 Fig. 1-6 Definition 1-4 Algorithm 1-4 Eq. 1-20",
    "Zhu": "Fig. 1-6 Definition 1-6 Proposition 1-1 Algorithm 1-2",
    "Yuan": "Table 1-3 Fig. 1-10 Definition 1-3 Assumption 1-1 Lemma 1-1 Theorem 1-3 Corollary 1-2 Remark 1-3 "
    "Algorithm 1-1 Eq. 1-43",
}
"""What each paper numbers, counted in its text (Fed-CAD's lemma and theorems carry their section's number)."""


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_number_of_a_paper_is_listed(paper: str) -> None:
    rows = json.loads(invoke("--list", "--json").stdout)
    listed = {item for row in rows if row["paper"].startswith(paper) for item in numbers(row["place"])}
    words = NUMBERED[paper].split()
    for kind, span in zip(words[::2], words[1::2], strict=True):
        first, last = map(int, span.split("-"))
        assert {(kind.rstrip("."), number) for number in range(first, last + 1)} <= listed


def numbers(place: str) -> set[tuple[str, int]]:
    """Returns the kinds and numbers of items that a place names: "Lemmas 1, 7 to 8 and Theorem 3" names four."""
    found: set[tuple[str, int]] = set()
    named = r"(Table|Fig|Definition|Lemma|Theorem|Proposition|Assumption|Corollary|Remark|Algorithm|Eq)"
    kinds = re.split(named, re.sub(r"\((\d+)\)", r"\1", place))
    for kind, text in zip(kinds[1::2], kinds[2::2], strict=True):
        text = re.sub(r"§.*", "", text)
        roman = {"III": 3, "II": 2, "I": 1}
        for first, last in re.findall(r"\b(\d+|I{1,3})\b(?: to (\d+))?", text):
            start = roman.get(first) or int(first)
            found |= {(kind, number) for number in range(start, int(last or start) + 1)}
    return found


def test_links_of_the_pages_lead_somewhere() -> None:
    folder = Path(__file__).parents[2] / "docs" / "papers"
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)]+)\)|src=\"([^\"]+)\"", text):
            link, _, anchor = next(filter(None, target)).partition("#")
            there = (folder / link).resolve() if link else path
            assert there.exists(), link
            if anchor:
                titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
                assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, link


def test_what_differs_has_a_reason_and_says_what_a_quick_run_leaves_out() -> None:
    experiment = EXPERIMENTS["baek-fig1"]
    bare, told = statement("a", "b", "c", False), statement("a", "b", "c", False, "a reason of its own")
    assert experiment.explained(bare, quick=False).why == experiment.doubt
    assert experiment.explained(bare, quick=True).why == f"quick: {experiment.shorter}; {experiment.doubt}"
    assert experiment.explained(told, quick=True) == told
    assert experiment.explained(statement("a", "b", "c", True), quick=True).why == ""

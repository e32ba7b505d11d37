"""The command itself, small, with real processes on the embedded data."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sordino.cli.compare import compare
from sordino.errors import RecipeError
from sordino.mechanisms import MECHANISMS
from sordino.runs.folder import RunFolder

ARGUMENTS = ["dp_fedavg", "dp_fedavg_adaptive", "fed_ldp", "geometric", "fedavg", "--seeds", "2", "--epsilon", "4"]
ARGUMENTS += ["--set", "run.rounds=3", "--set", "partition.clients=40", "--set", "select.kind=poisson"]
ARGUMENTS += ["--set", "select.rate=0.5", "--for", "geometric:mechanism.refine=true", "--jobs", "2", "--json"]
ARGUMENTS += ["--no-rivals", "--no-tune"]


def invoke(out: Path, *more: str) -> dict[str, Any]:
    app = typer.Typer()
    app.command()(compare)
    result = CliRunner().invoke(app, [*ARGUMENTS, "--out", str(out), *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def told(out: Path) -> dict[str, Any]:
    return invoke(out)


def test_every_contender_kept_to_the_budget_it_shares(told: dict[str, Any], out: Path) -> None:
    panels = {(panel["unit"], panel["trust"]): panel["rows"] for panel in told["panels"]}
    assert set(panels) == {("client", "central"), ("client", "local")}
    assert {row["contender"] for row in panels["client", "central"]} == {"dp_fedavg", "dp_fedavg_adaptive"}
    for rows in panels.values():
        assert all(0.5 * 4 < row["certified_epsilon"] <= 4 for row in rows)
        assert all(set(row["scores"]) == {"0", "1"} for row in rows)
        assert all(row["bytes_per_client"] == 4 * (64 * 10 + 10) for row in rows)
    scores = [RunFolder(out / "dp_fedavg" / "epsilon-4" / f"seed-{seed}").metrics()[-1] for seed in range(2)]
    mine = next(row for row in panels["client", "central"] if row["contender"] == "dp_fedavg")
    assert mine["mean"] == pytest.approx(sum(line["accuracy"] for line in scores) / 2)
    assert told["without_privacy"] > 0.2


def test_what_cannot_be_played_is_said_and_stops_nobody(told: dict[str, Any]) -> None:
    assert list(told["failed"]) == ["geometric"]
    assert "data.public_fraction" in told["failed"]["geometric"]


def test_the_page_shows_the_same_numbers(told: dict[str, Any], out: Path) -> None:
    html = (out / "comparison.html").read_text()
    shown = [json.loads(unescape(text)) for text in re.findall(r'data-field="mean" data-value="([^"]*)"', html)]
    assert shown == [row["mean"] for panel in told["panels"] for row in panel["rows"]]


def test_the_markdown_shows_the_same_table(told: dict[str, Any], out: Path) -> None:
    text = (out / "comparison.md").read_text()
    for panel in told["panels"]:
        for row in panel["rows"]:
            assert f"| {row['contender']} | 4 |" in text
            assert f"| {100 * row['mean']:.2f} ± {100 * row['std']:.2f} % |" in text
    links = re.findall(r"\((plots/[^)]+)\)", text)
    assert "plots/client-central-scores.svg" in links and all((out / link).exists() for link in links)


def test_a_second_call_plays_nothing_again(told: dict[str, Any], out: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*/*/private/metrics.jsonl")}
    assert len(before) == 8
    assert invoke(out, "--no-images") == told
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/*/*/private/metrics.jsonl")} == before


def test_another_comparison_is_not_mixed_in(told: dict[str, Any], out: Path) -> None:
    with pytest.raises(RecipeError, match="holds a run with other settings"):
        invoke(out, "--set", "run.rounds=4")


@pytest.mark.parametrize("option", ["--all", "--all-claimed"])
def test_every_mechanism_can_be_compared(option: str, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(compare)
    small = ["--seeds", "1", "--jobs", "1", "--set", "run.rounds=1", "--epsilon", "4", "--no-images", "--json"]
    small += ["--no-tune"]
    result = CliRunner().invoke(app, [option, *small, "--out", str(tmp_path)], catch_exceptions=False)
    told = json.loads(result.stdout)
    rows = [row for panel in told["panels"] for row in panel["rows"]]
    known = set(MECHANISMS) - {"fedavg"}
    if option == "--all":
        known |= {f"{name}-{variant.label}" for name, spec in MECHANISMS.items() for variant in spec.variants}
    assert {row["contender"] for row in rows} == known and not told["failed"]
    assert told["without_privacy"] > 0.5
    if option == "--all":
        assert all(row["certified_epsilon"] <= 4 for row in rows)
    else:
        printed = {row["contender"]: row for row in rows if row["mode"] == "faithful"}
        assert set(printed) == {name for name, entry in MECHANISMS.items() if entry.paper}
        assert all(row["claimed_epsilon"] is not None for row in printed.values())


def test_where_nothing_can_be_played_the_reason_is_told(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(compare)
    arguments = ["geometric", "--set", "run.rounds=1", "--for", "geometric:mechanism.refine=true", "--jobs", "1"]
    arguments += ["--no-rivals", "--no-tune"]
    with pytest.raises(RecipeError, match=r"nothing could be played: mechanism\.refine"):
        CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "new" / "folder")], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing to compare"),
        (["fed_ldp", "--all"], "'fed_ldp' is named beside an option for every mechanism"),
        (["--all", "--all-claimed"], "choose one of them"),
        (["fed_ldp", "--epsilon", "2", "--set", "budget.epsilon=3"], "both name the budget"),
        (["fed_ldp", "--set", "budget.epsilon=none"], "name the budget that everybody has with --epsilon"),
        (["fed_ldp", "--epsilon", "1", "--epsilon", "nan", "--epsilon", "2"], "a budget is above 0 and finite"),
        (["fed_ldp", "--epsilon", "inf"], "a budget is above 0 and finite"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(compare)
    with pytest.raises(RecipeError, match=sentence):
        CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "new")], catch_exceptions=False)
    assert not list(tmp_path.iterdir())


def test_budget_and_first_seed_are_those_of_the_recipe(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(compare)
    settings = [f"--set={one}" for one in ("budget.epsilon=5", "run.seed=9", "run.rounds=1", "partition.clients=30")]
    alone = ["--no-rivals", "--no-tune", "--seeds", "2", "--jobs", "1"]
    arguments = ["fed_ldp", *settings, *alone, "--json", "--no-images", "--out", str(tmp_path)]
    told = json.loads(CliRunner().invoke(app, arguments, catch_exceptions=False).stdout)
    ((row,),) = [panel["rows"] for panel in told["panels"]]
    assert (row["budget_epsilon"], set(row["scores"])) == (5.0, {"9", "10"})
    assert "plots/" not in (tmp_path / "comparison.md").read_text()


@pytest.mark.parametrize("name", ["public/model.safetensors", "private/metrics.jsonl"])
def test_a_damaged_run_is_named_with_what_to_do(name: str, told: dict[str, Any], out: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    (copy / "fed_ldp" / "epsilon-4" / "seed-1" / name).unlink()
    with pytest.raises(
        RecipeError, match=r"seed-1 lacks a file .*remove that folder, and the same command plays it ag"
    ):
        invoke(copy)
    shutil.rmtree(copy / "fed_ldp" / "epsilon-4" / "seed-1")
    again = invoke(copy, "--no-images")
    assert [panel["rows"][0]["scores"] for panel in again["panels"]] == [p["rows"][0]["scores"] for p in told["panels"]]

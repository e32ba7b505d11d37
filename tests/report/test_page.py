from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sordino.cli.report import report
from sordino.errors import RecipeError
from sordino.recipe import Recipe
from sordino.report import compared, page, plots
from sordino.report.interactive import figure
from sordino.report.reading import read, read_all
from sordino.report.view import RunView
from sordino.runs.run import run

from .conftest import play


def numbers(html: str, field: str) -> list[Any]:
    found = re.findall(rf'data-field="{field}" data-value="([^"]*)"', html)
    return [json.loads(unescape(text)) for text in found]


def figures(html: str) -> dict[str, Any]:
    text = re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)
    assert text is not None
    return {figure["key"]: figure for figure in json.loads(text[1])}


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "private" / "metrics.jsonl").read_text().splitlines()]


def test_the_page_tells_what_metrics_and_certificate_say(view: RunView, central: Path) -> None:
    html, rounds = page.page(view, plots.charts(view)), lines(central)
    entries = json.loads((central / "private" / "certificate.json").read_text())["entries"]
    assert sorted(numbers(html, "epsilon"), key=str) == sorted((e["epsilon"] for e in entries), key=str)
    assert numbers(html, "accuracy") == [rounds[-1]["accuracy"]]
    assert numbers(html, "loss") == [rounds[-1]["loss"]]
    drawn = figures(html)
    assert drawn["accuracy"]["data"][0]["y"] == [line["accuracy"] for line in rounds]
    assert drawn["loss"]["data"][0]["y"] == [line["loss"] for line in rounds]
    assert drawn["noise"]["data"][0]["y"] == [line["noise_stddev"] for line in rounds]
    assert drawn["clipping"]["data"][0]["y"] == [line["clip_fraction"] for line in rounds]
    assert drawn["epsilon"]["data"][0]["y"] == [line["epsilon"]["client/outsider"] for line in rounds]
    assert drawn["epsilon"]["layout"]["shapes"][0]["y0"] == 1.0
    asked, counted = (trace["y"] for trace in drawn["cohort"]["data"])
    assert asked == [line["cohort"] for line in rounds]
    assert counted == [line["survivors"] for line in rounds]
    assert sum(drawn["epsilon-clients"]["data"][0]["y"]) == 60


def test_the_certificate_comes_first(view: RunView) -> None:
    html = page.page(view, plots.charts(view))
    assert html.index("What was protected") < html.index("How it went") < html.index("The recipe")
    assert html.index("an outsider") < html.index("unprotected</span>")


def test_the_label_map_counts_what_clients_hold(view: RunView) -> None:
    heat = next(chart for chart in plots.charts(view) if chart.key == "labels").series[0]
    assert view.labels is not None
    assert len(heat.values) == len(view.labels.clients) == 60  # type: ignore[union-attr]
    assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in heat.values)  # type: ignore[union-attr]


def test_a_knob_that_moves_has_a_plot_of_its_own(adaptive: Path, view: RunView) -> None:
    moved = {chart.key: chart for chart in plots.charts(read(adaptive))}
    left = [line["knobs"]["clip_norm"] for line in lines(adaptive)]
    assert moved["knob-clip_norm"].series[0].y == [0.1, *left[:-1]]  # type: ignore[union-attr]
    assert "knob-clip_norm" not in {chart.key for chart in plots.charts(view)}


def test_nothing_is_fetched_and_names_cannot_break_out(central: Path, tmp_path: Path) -> None:
    evil = tmp_path / "<script>alert(1)<"
    shutil.copytree(central, evil)
    html = page.page(read(evil), plots.charts(read(evil)))
    assert "<script>alert" not in html
    assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=", html)
    assert not re.search(r"<link[^>]*href=.http", html)


def test_a_run_that_lost_its_ledger_or_certificate_is_still_shown(central: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(central, bare)
    (bare / "private" / "ledger.db").unlink()
    (bare / "private" / "certificate.json").unlink()
    html = page.page(read(bare), plots.charts(read(bare)))
    assert "there is no certificate yet" in html
    assert "costs by client (the ledger of this run is not here)" in html


def test_several_runs_make_one_page_that_says_where_they_differ(view: RunView, adaptive: Path) -> None:
    views = [view, read(adaptive)]
    html = compared.page(views, compared.charts(views))
    assert "<td>dropout.rate</td><td>0.2</td><td>0.0</td>" in html
    assert "<td>run.rounds</td>" not in html
    assert re.search(r'<details class="card"><summary>\d+ settings</summary>', html), "curves come before settings"
    assert numbers(html, "accuracy") == [v.rounds[-1]["accuracy"] for v in views]
    drawn = figures(html)["tradeoff-client-outsider"]["data"]
    assert drawn[1]["x"] == [line["epsilon"]["client/outsider"] for line in lines(adaptive)]


def test_runs_of_the_same_name_are_told_apart(
    central: Path, adaptive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (Path(shutil.copytree(run, tmp_path / run.name / "seed-0")) for run in (central, adaptive))
    assert [view.name for view in read_all([one, other])] == ["central/seed-0", "adaptive/seed-0"]
    assert [view.name for view in read_all([one, other, central])] == ["central/seed-0", "adaptive/seed-0", "central"]
    monkeypatch.chdir(one)
    assert [view.name for view in read_all([Path()])] == ["seed-0"]
    with pytest.raises(RecipeError, match="seed-0 is named twice"):
        read_all([one, Path()])


def test_a_single_round_is_seen(tmp_path: Path) -> None:
    view = read(play(tmp_path / "one", "mechanism.name=dp_fedavg", "run.rounds=1"))
    for chart in plots.charts(view):
        drawn = figure(chart)
        for trace in drawn["data"]:
            assert trace["type"] != "scatter" or "markers" in trace["mode"], chart.key
        if chart.x.title == "round":
            assert (drawn["layout"]["xaxis"]["range"], drawn["layout"]["xaxis"]["dtick"]) == ([0.5, 1.5], 1)


def test_runs_whose_costs_are_far_apart_are_all_seen(view: RunView) -> None:
    dear = replace(
        view,
        name="dear",
        rounds=tuple(
            {**line, "epsilon": {k: v and 500 * v for k, v in line["epsilon"].items()}} for line in view.rounds
        ),
    )
    near = {chart.key: chart for chart in compared.charts([view, view])}
    far = {chart.key: chart for chart in compared.charts([view, dear])}
    assert not near["epsilon-client-outsider"].y.log and far["epsilon-client-outsider"].y.log
    assert not near["tradeoff-client-outsider"].x.log and far["tradeoff-client-outsider"].x.log


def test_every_plot_is_saved_as_svg_and_png(view: RunView, tmp_path: Path) -> None:
    files = page.write(view, tmp_path / "report.html", tmp_path / "pictures")
    keys = {chart.key for chart in plots.charts(view)}
    assert {path.stem for path in files[1:]} == keys
    assert len(files) == 1 + 2 * len(keys)
    svg = (tmp_path / "pictures" / "accuracy.svg").read_text()
    assert "Test accuracy by round" in svg
    assert (tmp_path / "pictures" / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_a_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="holds no run: name a folder that `sordino run` made"):
        read(tmp_path)


def test_the_command_writes_beside_the_run(central: Path, tmp_path: Path) -> None:
    import typer

    app = typer.Typer()
    app.command()(report)
    target = tmp_path / "seen.html"
    result = CliRunner().invoke(app, [str(central), "--out", str(target), "--no-images"])
    assert result.exit_code == 0, result.output
    assert target.exists() and not (tmp_path / "seen-plots").exists()


def test_a_public_page_says_nothing_of_seconds(central: Path) -> None:
    public, private = read(central, public=True), read(central)
    assert public.seconds is None and private.seconds is not None and private.seconds > 0
    assert "<span>seconds</span>" not in page.page(public, [])
    assert "<span>seconds</span>" in page.page(private, [])


@pytest.mark.parametrize("seeded", [True, False])
def test_pages_outcomes_and_certificates_agree_on_whether_noise_was_seeded(seeded: bool, tmp_path: Path) -> None:
    """A run with `run.entropy` was called a simulation by all but its certificate."""
    settings = ["mechanism.name=dp_fedavg", "run.rounds=1", f"run.entropy={str(not seeded).lower()}"]
    outcome = run(Recipe.load(None, settings), out=tmp_path / "one")
    assert outcome.simulation == outcome.to_json()["simulation"] == outcome.document.simulation == seeded
    for public in (True, False):
        told = page.page(read(tmp_path / "one", public=public), [])
        assert ("drawn from a seed" in told) == seeded and (" · simulation · " in told) == seeded

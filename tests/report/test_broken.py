"""Run folders that something happened to: one sentence that says which file and what to do, or the rest of the page."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from sordino.cli import main
from sordino.report import page, plots
from sordino.report.reading import read
from sordino.runs.folder import RunFolder

from .conftest import Player


@pytest.fixture
def copy(central: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(central, tmp_path / "run"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def command(*words: str) -> int:
    with patch("sys.argv", ["sordino", *words]), pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert command("report", str(copy), "--private", "--no-images") == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("text", ["", "5", "{}", '{"format": 1, "entries": [{}]}', "cut", "martian", "word"])
def test_a_broken_certificate_is_named(copy: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    strange = {"martian": {"observer": "martian"}, "word": {"epsilon": "little"}}
    path = copy / "private" / "certificate.json"
    told = json.loads(path.read_text())
    if text == "cut":
        cut(path)
    elif text in strange:
        told["entries"][0] |= strange[text]
        path.write_text(json.dumps(told))
    else:
        path.write_text(text)
    told = refused(copy, capsys)
    assert "certificate.json cannot be read: make it anew" in told
    assert "sordino run --resume --out" in told


def test_what_is_advised_for_a_broken_certificate_works(copy: Path) -> None:
    whole = (copy / "private" / "certificate.json").read_text()
    cut(copy / "private" / "certificate.json")
    assert command("run", "--resume", "--out", str(copy)) == 0
    assert json.loads((copy / "private" / "certificate.json").read_text())["entries"] == json.loads(whole)["entries"]


@pytest.mark.parametrize("line", [b"\xff\xfe\x00binary\n", b"[1, 2]\n", b'"word"\n', b"{}\n"])
def test_metrics_that_no_round_wrote_are_named(copy: Path, capsys: pytest.CaptureFixture[str], line: bytes) -> None:
    with (copy / "private" / "metrics.jsonl").open("ab") as file:
        file.write(line)
    assert "metrics.jsonl is damaged in line 7: bring the file back" in refused(copy, capsys)


@pytest.mark.parametrize(
    ("field", "value"),
    [("noise_stddev", ...), ("accuracy", "high"), ("epsilon", [1]), ("knobs", {"clip_norm": "wide"}), ("round", 5)],
)
def test_a_round_that_no_run_wrote_is_named(
    copy: Path, capsys: pytest.CaptureFixture[str], field: str, value: object
) -> None:
    lines = [json.loads(line) for line in (copy / "private" / "metrics.jsonl").read_text().splitlines()]
    lines[2] |= {field: value} if value is not ... else {}
    if value is ...:
        del lines[2][field]
    (copy / "private" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = refused(copy, capsys)
    assert "metrics.jsonl is damaged in line 3 (" in told and field in told and "bring the file back" in told
    assert not list(copy.rglob("report.html"))


@pytest.mark.parametrize("text", ["[]", "{}", '{"run": 3}'])
def test_facts_that_no_run_wrote_are_named(copy: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (copy / "private" / "run.json").write_text(text)
    assert "run.json is missing or cannot be read: bring it back" in refused(copy, capsys)


def test_a_page_that_cannot_have_its_pictures_is_not_written(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "public" / "report-plots").write_text("")
    assert command("report", str(copy)) == 2
    assert "report-plots" in capsys.readouterr().err
    assert not list(copy.rglob("report.html"))
    assert command("report", str(copy), "--out", "") == 2
    assert "--out is empty" in capsys.readouterr().err


def test_reading_leaves_nothing_behind(copy: Path) -> None:
    before = set(copy.rglob("*"))
    assert command("report", str(copy), "--no-images") == 0
    assert set(copy.rglob("*")) == before | {copy / "public" / "report.html"}
    assert command("report", str(copy), "--no-images", "--private") == 0
    assert set(copy.rglob("*")) == before | {copy / part / "report.html" for part in ("public", "private")}
    assert "This is a public page" in (copy / "public" / "report.html").read_text()
    assert "This is a private page" in (copy / "private" / "report.html").read_text()


def test_a_public_page_needs_nothing_private_and_refuses_what_is_no_release(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(copy / "private")
    assert command("report", str(copy), "--no-images") == 0
    path = copy / "public" / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line | {"cohort": 24}) + "\n" for line in lines))
    assert command("report", str(copy), "--no-images") == 2
    assert "(cohort)" in capsys.readouterr().err


def test_a_folder_without_its_facts_is_told_what_report_needs(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "private" / "run.json").unlink()
    told = refused(copy, capsys)
    assert "run.json is missing or cannot be read: bring it back, or name another folder" in told
    assert "--resume" not in told


def test_a_broken_checkpoint_leaves_out_what_it_held(played: Player, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(played("component_adaptive"), tmp_path / "run"))
    cut(copy / "private" / "checkpoint.safetensors")
    view = read(copy)
    charts = plots.charts(view)
    assert "scales" not in {chart.key for chart in charts}
    assert "Not shown: what the mechanism learned (checkpoint.safetensors is gone or" in page.page(view, charts)


def test_metrics_that_end_before_the_certificate_are_remarked(copy: Path) -> None:
    path = copy / "private" / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    view = read(copy)
    assert "metrics.jsonl ends with round 4, and the certificate covers 6" in page.page(view, [])


def test_metrics_are_json_and_a_loss_that_is_no_number_stays_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.prepare()
    folder.log({"round": 1, "loss": 0.5, "accuracy": None, "knobs": {"loss": math.inf, "level": 1.0}}, {"round": 1})
    folder.log({"round": 2, "loss": math.nan, "accuracy": None, "knobs": {}}, {"round": 2})
    folder.rewind(2)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in (tmp_path / "private" / "metrics.jsonl").open()]
    assert lines[0]["knobs"] == {"loss": None, "level": 1.0}
    assert lines[1]["loss"] is None
    first, second = folder.metrics()
    assert first["loss"] == 0.5 and math.isnan(second["loss"])


def test_a_diverged_run_says_so_in_a_word(copy: Path) -> None:
    lines = RunFolder(copy).metrics()
    RunFolder(copy).rewind(5)
    RunFolder(copy).log(lines[-1] | {"loss": math.nan}, {"round": 6})
    view = read(copy)
    html = page.page(view, plots.charts(view))
    assert '<span data-field="loss" data-value="null">diverged</span>' in html
    assert ">nan<" not in html


def test_geometric_writes_metrics_that_any_reader_understands(played: Player) -> None:
    path = RunFolder(played("geometric", "mechanism.mode=faithful")).metrics_file
    assert [json.loads(line, parse_constant=pytest.fail)["knobs"]["loss"] for line in path.open()] == [None] * 6

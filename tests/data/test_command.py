"""`sordino data`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sordino.cli.data import data
from sordino.data import DATASETS


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(data)
    return made


def test_json_lists_every_data_set_with_its_status(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_text("")
    result = CliRunner().invoke(app, ["--json", "--folder", str(tmp_path)])
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert result.exit_code == 0 and list(rows) == list(DATASETS)
    status = {name: row["status"] for name, row in rows.items()}
    assert status["digits"] == "installed" and status["adult"] == "found" and status["mnist"] == "missing"
    assert status["csv"] == status["npz"] == "yours"
    assert rows["adult"]["path"] == str(tmp_path / "adult")
    assert all(row["how_to_get"].endswith(".") for row in rows.values())


def test_table_says_how_to_get_what_is_missing(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--folder", str(tmp_path)], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    for dataset in DATASETS.values():
        assert dataset.name in result.stdout and dataset.how_to_get in result.stdout
    assert "regression" in result.stdout and "hospital (4)" in result.stdout

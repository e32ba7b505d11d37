"""The example app, as it stands in `examples/`, on a grid in this process."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from flwr.common.config import flatten_dict

from flower.in_process import TinyGrid

APP = Path(__file__).resolve().parents[2] / "examples" / "flower_app"


def test_the_example_learns_and_is_certified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(APP), *sys.path])
    from private_app import client_app, server_app
    from private_app.task import accuracy, network

    config = flatten_dict(tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"])
    config |= {"sordino.ledger": str(tmp_path / "ledger.db"), "sordino.certificate": str(tmp_path / "told.json")}
    nodes = int(config["sordino.population"])
    places = {node: {"partition-id": node - 100, "num-partitions": nodes} for node in range(100, 100 + nodes)}
    grid = TinyGrid(dict.fromkeys(places, client_app.app), config, places)
    results = list[float]()
    monkeypatch.setattr(server_app, "accuracy", lambda model: results.append(accuracy(model)) or results[-1])
    server_app.app(grid, Context(7, 0, {}, RecordDict(), config))
    assert len(results) == 9 and accuracy(network()) < 0.3 and results[-1] > 0.6
    told = capsys.readouterr().out
    assert "client against the outsider (add_remove): certified, ε = 8" in told
    assert "client against the server (zero_out): unprotected" in told and (tmp_path / "told.json").exists()

"""Every script of examples/ runs, small, and comes to what its tutorial says."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sordino

HERE = Path(__file__).resolve().parents[2] / "examples"


def script(name: str) -> ModuleType:
    """Returns an example as a module, without running its last lines."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_hospitals_from_a_csv(tmp_path: Path) -> None:
    outcome = script("hospitals_csv").main(tmp_path, rounds=10)
    assert outcome.accuracy > 0.85
    assert outcome.certificate.entry("record", "server").epsilon <= 2
    assert set(outcome.scores_by_client()) < {"north", "south", "east", "west"}  # one of them is the test set


def test_the_hospitals_table_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["hospitals_csv.py", str(tmp_path / "patients.csv")])
    runpy.run_path(str(HERE / "hospitals_csv.py"), run_name="__main__")
    assert len((tmp_path / "patients.csv").read_text().splitlines()) == 570 and len(list(tmp_path.iterdir())) == 1


def test_an_own_network(tmp_path: Path) -> None:
    outcome = script("own_cnn").main(tmp_path, rounds=1)
    assert type(outcome.model).__name__ == "SmallCNN"
    assert outcome.context.layout.names == ("trained.weight", "trained.bias", "last.weight", "last.bias")


def test_two_studies(tmp_path: Path) -> None:
    first, second = script("two_studies").main(tmp_path)
    assert (first.rounds, second.rounds) == (8, 8)
    for outcome, budget in ((first, 2.0), (second, 4.0)):
        assert outcome.certificate.entry("client", "outsider").epsilon == pytest.approx(budget, rel=0.02)
        assert outcome.certificate.entry("client", "outsider").epsilon <= budget
    assert second.certificate.population == 100


def test_an_own_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sordino.MECHANISMS, "_specs", {name: sordino.MECHANISMS[name] for name in sordino.MECHANISMS})
    outcome = script("own_mechanism").main(tmp_path)
    assert outcome.accuracy > 0.7
    assert outcome.certificate.entry("client", "outsider").epsilon == pytest.approx(1.0, rel=0.01)
    assert "shrinking" in sordino.MECHANISMS


def test_tuning_costs_nothing(tmp_path: Path) -> None:
    settings, outcome = script("tuning_honestly").main(tmp_path)
    assert len(settings) == 1
    assert outcome.certificate.releases == 10  # of the private data there was one run
    assert outcome.certificate.entry("record", "outsider").epsilon <= 1.0

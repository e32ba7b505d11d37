"""Mechanisms from installed packages of strangers: they pass through every command, and a planted bug is found.

The packages are installed by pip into a folder of their own, like anybody's; nothing in `src/` knows of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Installs both packages and returns the environment in which they can be imported."""
    room = tmp_path_factory.mktemp("site")
    packages = [str(HERE / name) for name in ("logistic_noise", "leaky_noise")]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(room),
    ]
    subprocess.run([*pip, *packages], check=True)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(room), os.environ.get("PYTHONPATH", "")])}


def sordino(environment: dict[str, str], folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "sordino", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SMALL = ("--set", "mechanism.name=logistic", "--set", "run.rounds=3", "--set", "partition.clients=30")


def test_the_mechanism_is_under_a_hundred_lines() -> None:
    assert len((HERE / "logistic_noise" / "src" / "logistic_noise.py").read_text().splitlines()) < 100


def test_a_strangers_mechanism_passes_through_every_command(installed: dict[str, str], tmp_path: Path) -> None:
    assert "logistic" in sordino(installed, tmp_path, "mechanisms")
    assert "logistic noise" in sordino(installed, tmp_path, "recipe", "--explain")
    told = json.loads(sordino(installed, tmp_path, "run", *SMALL, "--out", "one", "--json"))
    assert told["rounds"] == 3 and {entry["status"] for entry in told["certificate"]} == {"certified"}
    # three releases of pure ε = 1/z each, calibrated to the budget of 1
    assert all(0.9 < entry["epsilon"] <= 1 + 1e-9 for entry in told["certificate"])
    assert "all 3 releases" in sordino(installed, tmp_path, "ledger", "one", "--verify")
    sordino(installed, tmp_path, "report", "one")
    assert any("logistic" in page.read_text() for page in (tmp_path / "one").rglob("*.html"))
    compared = sordino(
        installed, tmp_path, "compare", "logistic", "laplace", "--seeds", "1", "--out", "both",
        "--set", "run.rounds=2", "--set", "partition.clients=30", "--json",
    )  # fmt: skip
    assert "logistic" in compared


def test_the_audit_finds_the_honest_one_consistent_and_the_planted_bug(
    installed: dict[str, str], tmp_path: Path
) -> None:
    honest = json.loads(sordino(installed, tmp_path, "audit", "logistic", "--trials", "4000", "--json"))
    assert {finding["verdict"] for finding in honest["findings"]} == {"consistent"}
    leaky = json.loads(sordino(installed, tmp_path, "audit", "leaky", "--trials", "20000", "--json"))
    assert leaky["verdict"] == "violated" and leaky["lower_bound"] > leaky["certified"]

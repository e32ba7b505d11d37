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


COMMANDS = """
import contextlib, io, json, sys
from sordino.cli.app import app, register
register()
told = []
for arguments in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            app(arguments)
        except SystemExit as end:
            assert not end.code, f"sordino {' '.join(arguments)}: {end.code}"
    told.append(out.getvalue())
print(json.dumps(told))
"""


def sordino(environment: dict[str, str], folder: Path, *commands: tuple[str, ...]) -> list[str]:
    """Returns what commands print, one after the other in one process: starting one takes most of the time."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps(commands), cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: list[str] = json.loads(done.stdout)
    return told


SMALL = ("--set", "mechanism.name=logistic", "--set", "run.rounds=3", "--set", "partition.clients=30")


def test_the_mechanism_is_under_a_hundred_lines() -> None:
    assert len((HERE / "logistic_noise" / "src" / "logistic_noise.py").read_text().splitlines()) < 100


def test_a_strangers_mechanism_passes_through_every_command(installed: dict[str, str], tmp_path: Path) -> None:
    mechanisms, explained, ran, verified, _, compared = sordino(
        installed,
        tmp_path,
        ("mechanisms",),
        ("recipe", "--explain"),
        ("run", *SMALL, "--out", "one", "--json"),
        ("ledger", "one", "--verify"),
        ("report", "one"),
        (
            *("compare", "logistic", "laplace", "--seeds", "1", "--out", "both"),
            *("--set", "run.rounds=2", "--set", "partition.clients=30", "--json"),
        ),
    )
    assert "logistic" in mechanisms and "logistic noise" in explained
    told = json.loads(ran)
    assert told["rounds"] == 3 and {entry["status"] for entry in told["certificate"]} == {"certified"}
    # three releases of pure ε = 1/z each, calibrated to the budget of 1
    assert all(0.9 < entry["epsilon"] <= 1 + 1e-9 for entry in told["certificate"])
    assert "all 3 releases" in verified
    assert any("logistic" in page.read_text() for page in (tmp_path / "one").rglob("*.html"))
    assert "logistic" in compared


def test_the_audit_finds_the_honest_one_consistent_and_the_planted_bug(
    installed: dict[str, str], tmp_path: Path
) -> None:
    honest, leaky = map(
        json.loads,
        sordino(
            installed,
            tmp_path,
            ("audit", "logistic", "--trials", "4000", "--json"),
            ("audit", "leaky", "--trials", "20000", "--json"),
        ),
    )
    assert {finding["verdict"] for finding in honest["findings"]} == {"consistent"}
    assert leaky["verdict"] == "violated" and leaky["lower_bound"] > leaky["certified"]


def test_it_passes_the_suite_that_all_our_parts_pass(installed: dict[str, str]) -> None:
    """As docs/writing-a-mechanism.md tells whoever writes one; the page's own mechanism failed it."""
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contracts", "-k", "logistic"]
    alone = {name: value for name, value in installed.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(suite, cwd=HERE.parents[1], env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

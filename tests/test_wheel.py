"""The wheel is enough: `sordino run` works from it, away from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the wheel, and installs it alone into a folder."""
    pytest.importorskip("hatchling", reason="there is no hatchling here to build a wheel with")
    built, home = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)], cwd=ROOT, check=True)
    (wheel,) = built.glob("*.whl")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(home), str(wheel)]
    subprocess.run([sys.executable, *install], check=True)
    return home


def test_a_run_needs_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SORDINO"))}
    code = (
        "import sys, sordino; assert sordino.__file__.startswith(sys.argv.pop(1)), sordino.__file__; "
        "from sordino.cli import main; main()"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(installed), "run", "--json", "--set", "run.rounds=1", "--out", "run"],
        env=bare | {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["rounds"] == 1
    assert (tmp_path / "run" / "public" / "certificate.json").exists()

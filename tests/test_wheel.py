"""The wheel is enough: `sordino run` works from it, away from the checkout."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OWN = {"sordino", "papers"}
OPTIONAL = {"h5py"}
"""Asked for in a sentence where it is missing."""


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


def imported(path: Path) -> set[str]:
    """Returns the packages that a file imports, wherever in it."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def named(requirements: list[str]) -> set[str]:
    return {re.sub(r"[-_.]+", "-", re.split(r"[<>=\[ ;]", one)[0]).lower() for one in requirements}


def test_whatever_is_imported_is_asked_for() -> None:
    """Another package's dependency may be gone with its next release: pip would install a sordino that cannot start."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    always, flower = named(project["dependencies"]), named(project["optional-dependencies"]["flower"])
    known = packages_distributions()
    for path in (ROOT / "src").rglob("*.py"):
        there = always | flower if {"flower", "federation"} & set(path.parts) else always
        for package in imported(path) - OWN - OPTIONAL - set(sys.stdlib_module_names):
            assert named(known[package]) & there, (path, package)

"""The house itself: one name for one thing, a curated front door, and doctests that are true."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import sordino

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "sordino"
MODULES = sorted(SOURCE.rglob("*.py"))


def public_names(path: Path) -> list[str]:
    """Returns public classes and type aliases that a module defines itself."""
    tree = ast.parse(path.read_text())
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    targets = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    aliases = [t.id for t in targets if isinstance(t, ast.Name) and t.id[:1].isupper() and not t.id.isupper()]
    return [name for name in classes + aliases if not name.startswith("_")]


def test_no_two_public_classes_share_a_name() -> None:
    homes = defaultdict[str, list[str]](list)
    for path in MODULES:
        for name in public_names(path):
            homes[name].append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_the_front_door_opens_to_just_what_it_says() -> None:
    assert sordino.__all__ == sorted(
        sordino.__all__, key=lambda name: (name != "MECHANISMS", not name[:1].isupper(), name)
    )
    for name in sordino.__all__:
        assert getattr(sordino, name) is not None
    assert set(sordino._HOME_OF) | {"__version__", "register"} >= set(sordino.__all__)
    assert set(sordino.__all__) <= set(dir(sordino)), "what is loaded late is offered early"
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = sordino.nothing_like_it


def test_importing_the_package_does_not_wait_for_torch() -> None:
    code = "import sys, sordino; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", [p for p in MODULES if ">>>" in p.read_text()], ids=lambda p: str(p.name))
def test_examples_in_docstrings_are_true(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    found = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert found.attempted > 0 and found.failed == 0


def test_no_module_is_named_for_nothing() -> None:
    empty = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
    assert {path.stem for path in MODULES} & empty == set()


def test_benchmarks_and_examples_import_what_is_there() -> None:
    """Nothing runs or types them in this suite: a name that moved would be missed when somebody measures."""
    asked = [
        (path.name, node.module or "", alias.name)
        for room in ("benchmarks", "examples")
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sordino"
        for alias in node.names
    ]
    assert len(asked) > 100
    for path, module, name in asked:
        home = importlib.import_module(module)
        inside = hasattr(home, "__path__") and importlib.util.find_spec(f"{module}.{name}")
        assert hasattr(home, name) or inside, f"{path}: {module} has no {name}"


def test_habits_are_those_that_contributors_are_told_of() -> None:
    """One command for everybody: the workflow runs `.ci/run`, that runs `make test`, and hooks are `make lint`'s."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    ci, make, hooks, told = (
        (ROOT / name).read_text() for name in (".ci/run", "Makefile", ".pre-commit-config.yaml", "CONTRIBUTING.md")
    )
    assert "bash .ci/run" in workflow and "\nmake test\n" in ci and "\ntest: setup lint\n" in make
    for tool in ("ruff format", "ruff check", "mypy", "lint-imports"):
        assert f"$(BIN)/{tool}" in make and f"entry: .venv/bin/{tool}" in hooks
    for link in re.findall(r"\]\(([^)#]+)\)", told):
        assert (ROOT / link).exists(), link
    for path in re.findall(r"`((?:tests|docs)/[\w./]+)`", told):
        assert (ROOT / path).exists(), path


def test_the_changelog_tells_of_this_version_first() -> None:
    heads = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    versions = [head for head in heads if head != "Unreleased"]
    assert versions[0] == sordino.__version__ and versions[-1] <= "0.2.0"
    assert versions == sorted(versions, key=lambda one: [int(part) for part in one.split(".")], reverse=True)


def test_tests_mirror_the_tree() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    tested = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    elsewhere = {"client"}  # tests/contracts plays both sides
    assert rooms - elsewhere <= tested

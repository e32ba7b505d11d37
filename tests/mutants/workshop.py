"""Where mutants are played: in a copy of the package, never in the tree itself."""

from __future__ import annotations

import compileall
import gc
import importlib.util
import multiprocessing
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from .mutant import ROOT, SOURCE, Mutant

_BROKEN = ("SyntaxError", "ImportError", "NameError", "AttributeError", "TypeError")
"""Errors of a change that does not even run: they would make any test fail, and prove nothing about it."""
_SLOW = (
    *("torch", "torch.func", "scipy.stats", "scipy.optimize", "sklearn.datasets", "dp_accounting", "pydantic"),
    *("hypothesis", "hypothesis.strategies", "hypothesis.extra.numpy", "anyio.pytest_plugin"),
)
"""What every test imports: once here, and never again in the processes that are forked off."""
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Libraries that are there already need no rewriting: their own assertions are not what is asked."""
_STALE = shutil.ignore_patterns("__pycache__")
"""Bytecode that only a time says to be the source's."""


@dataclass(frozen=True)
class Verdict:
    """How a test run on a copy of the package ended."""

    code: int
    """Of pytest: 0 when everything passed, 1 when a test failed, more when tests could not be run."""
    told: str

    @property
    def reason(self) -> str:
        """Why the test failed, in pytest's words."""
        found = re.search(r"^FAILED .*? - (.*)$", self.told, re.MULTILINE)
        return found[1] if found else self.told.strip().rpartition("\n")[2]

    @property
    def killed(self) -> bool:
        """Whether a test failed because of what the code does."""
        return self.code == 1 and not any(name in self.reason for name in _BROKEN)


class Workshop:
    """A snapshot of the package, from which every mutant gets a copy of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clean = self._copy("clean")
        # compiled once, each with its source's digest: a file that was changed is compiled again, and no other
        compileall.compile_dir(self._clean, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        for name in _SLOW:
            importlib.import_module(name)
        gc.freeze()  # or every process would look through all of it for what nobody needs

    def clean(self, tests: list[str]) -> Verdict:
        """Runs tests on the package as it is."""
        return self._run(self._clean, *tests)

    def planted(self, mutant: Mutant) -> Verdict:
        """Runs the mutant's test on a copy with its change made."""
        copy = self._copy("mutant")
        file = copy / "sordino" / mutant.file
        file.write_text(mutant.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        verdict = self._run(copy, "-x", mutant.test)
        shutil.rmtree(copy)
        return verdict

    def _copy(self, name: str) -> Path:
        source = SOURCE if name == "clean" else self._clean / "sordino"
        shutil.copytree(source, self._folder / name / "sordino", ignore=_STALE if name == "clean" else None)
        return self._folder / name

    def _run(self, package: Path, *arguments: str) -> Verdict:
        log = self._folder / "log"
        process = multiprocessing.get_context("fork").Process(target=_play, args=(package, arguments, log))
        process.start()
        process.join()
        return Verdict(process.exitcode or 0, log.read_text(encoding="utf-8"))


def _play(package: Path, arguments: tuple[str, ...], log: Path) -> None:
    """Runs pytest in a process of its own, which knows the package by its copy alone."""
    with log.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(ROOT)
    os.environ |= {
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",  # a stale .pyc must never stand in for changed source
        "HYPOTHESIS_STORAGE_DIRECTORY": str(package.parent / "hypothesis"),
        "COLUMNS": "500",  # or pytest would cut its reasons short
    }
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(package))
    found = importlib.util.find_spec("sordino")
    if found is None or found.origin is None or not Path(found.origin).is_relative_to(package):
        print("sordino would not be imported from the copy")
        sys.exit(int(pytest.ExitCode.INTERNAL_ERROR))
    chosen = [f"tests/{argument}" if "::" in argument else argument for argument in arguments]
    sys.exit(int(pytest.main(["-q", "--tb=line", "-p", "no:cacheprovider", "--hypothesis-seed=0", *_QUIET, *chosen])))

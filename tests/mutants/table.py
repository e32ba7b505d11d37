"""The mutants as a page: `docs/mutants.md`."""

from __future__ import annotations

from itertools import groupby

from .mutant import ROOT, Mutant

PAGE = ROOT / "docs" / "mutants.md"

_INTRODUCTION = """# Mutants

Changes that would break a promise, and the test that fails for each: {count} of them in {files} files. `make mutants`
plants them one at a time in a copy of the package, runs the one test that is named for it, and requires that it fails
there and passes on the copy without the change (`python -m tests.mutants NAME …` plays those whose file or story has
NAME in it; `--write` writes this page). They are listed in `tests/mutants/`; `make test` checks that each of them still
fits the code. The planted bugs of `tests/bugfarm/` are found by audits on every run of the tests.

| part | mutant | killed by |
|---|---|---|
"""


def page(mutants: tuple[Mutant, ...]) -> str:
    """Returns the page: one row for all mutants of a file that the same test kills."""
    rows = []
    for (file, test), group in groupby(mutants, key=lambda mutant: (mutant.file, mutant.test)):
        stories = "; ".join(mutant.story for mutant in group)
        rows.append(f"| `{file.removesuffix('.py')}` | {stories} | `{test}` |\n")
    files = len({mutant.file for mutant in mutants})
    return _INTRODUCTION.format(count=len(mutants), files=files) + "".join(rows)

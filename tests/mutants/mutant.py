"""A mutant: one change to the package that breaks a promise, and the test that has to notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sordino"


@dataclass(frozen=True)
class Mutant:
    """What is changed where (`before` must be found exactly once), and which test fails for it."""

    file: str
    """Path under `src/sordino`."""
    story: str
    before: str
    after: str
    test: str
    """Path under `tests`, `::`, and the test's name (with or without its parameters)."""

    def applied(self, text: str) -> str:
        """Returns the file's text with the change made.

        Raises:
            ValueError: the text to change is not there, or there more than once.
        """
        if (count := text.count(self.before)) != 1:
            raise ValueError(f"{self.file}: {self.before!r} is found {count} times, not once ({self.story})")
        return text.replace(self.before, self.after)


def killed_by(test: str, file: str, *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    """Returns the mutants of one file that one test kills: (story, before, after) each."""
    return tuple(Mutant(file, story, before, after, test) for story, before, after in changes)

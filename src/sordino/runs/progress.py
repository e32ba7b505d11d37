"""Progress bars, on stderr: how far something is, and for a run its accuracy and the ε spent."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sordino.recipe import Recipe

_OFTEN = 30.0
"""Seconds between two lines where no bar can be drawn."""


class Bar:
    """A bar that is drawn while a block runs; without a terminal, as in a log, a line every 30 seconds.

    Args:
        quiet: draw nothing, as for machines that read the output.
        words: what is counted.
        bar: rich's own, where other columns are wanted.
    """

    def __init__(self, quiet: bool, words: str = "rounds", bar: Progress | None = None) -> None:
        columns = (TextColumn("{task.description}"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn())
        self._bar = bar or Progress(*columns, console=Console(stderr=True, emoji=False))
        self._bar.disable = quiet or not sys.stderr.isatty()
        self._task = self._bar.add_task(words, total=None)
        self._quiet, self._words, self._told = quiet or not self._bar.disable, words, time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not any(task.completed for task in self._bar.tasks):
            self._bar.live.transient = True  # an empty bar above a refusal tells nothing
        self._bar.stop()

    def show(self, done: int, total: int, words: str | None = None) -> None:
        """Moves the bar."""
        self._bar.update(self._task, completed=done, total=total, description=words)
        self._tell(done, total, words or self._words)

    def _tell(self, done: int, total: int, words: str) -> None:
        if not self._quiet and time.monotonic() > self._told + _OFTEN:
            self._told = time.monotonic()
            print(f"{words} {done:,} of {total:,}", file=sys.stderr, flush=True)


class RoundProgress(Bar):
    """Shows rounds as they are played."""

    def __init__(self, recipe: Recipe, quiet: bool) -> None:
        self._budget, self._rounds = recipe.budget.epsilon, recipe.run.rounds
        bar = Progress(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[score]}"),
            TextColumn("ε {task.fields[epsilon]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True, emoji=False),
        )
        super().__init__(quiet, bar=bar)
        self._bar.update(self._task, total=recipe.run.rounds, score="…", epsilon="…")

    @classmethod
    def wanted(cls, recipe: Recipe, wish: bool | None) -> RoundProgress:
        """Returns the progress of a run that is started from Python: where nothing is said, in a terminal only."""
        return cls(recipe, quiet=not (sys.stderr.isatty() if wish is None else wish))

    def say(self, sentence: str) -> None:
        """Says something above the bar; in a log, on a line of its own."""
        if not self._bar.disable:
            self._bar.console.print(sentence, style="dim", highlight=False, markup=False)
        elif not self._quiet:
            print(sentence, file=sys.stderr, flush=True)

    def played(self, metrics: Mapping[str, Any]) -> None:
        """Moves the bar to the round of these metrics."""
        fields: dict[str, Any] = {"epsilon": self._spent(metrics["epsilon"])} if metrics.get("epsilon") else {}
        if metrics.get("accuracy") is not None:
            fields["score"] = f"accuracy {metrics['accuracy']:.1%}"
        elif metrics.get("loss") is not None:
            fields["score"] = f"loss {metrics['loss']:.4g}"
        self._bar.update(self._task, completed=metrics["round"], **fields)
        self._tell(metrics["round"], self._rounds, "round")

    def _spent(self, epsilon: Mapping[str, float | None]) -> str:
        known = [value for value in epsilon.values() if value is not None]
        spent = f"{max(known):.3f}" if known else "∞"
        return f"{spent} of {self._budget:g}" if self._budget and known else spent

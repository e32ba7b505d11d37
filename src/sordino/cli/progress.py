"""A progress bar for rounds: round, accuracy, and ε spent."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sordino.recipe import Recipe


class RoundProgress:
    """Shows rounds as they are played, on stderr."""

    def __init__(self, recipe: Recipe, quiet: bool) -> None:
        self._budget = recipe.budget.epsilon
        self._bar = Progress(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("accuracy {task.fields[accuracy]}"),
            TextColumn("ε {task.fields[epsilon]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=quiet,
        )
        self._task = self._bar.add_task("rounds", total=recipe.run.rounds, accuracy="…", epsilon="…")

    def __enter__(self) -> RoundProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, metrics: Mapping[str, Any]) -> None:
        """Moves the bar to the round of these metrics."""
        fields: dict[str, Any] = {"epsilon": self._spent(metrics.get("epsilon") or {})}
        if metrics.get("accuracy") is not None:
            fields["accuracy"] = f"{metrics['accuracy']:.1%}"
        self._bar.update(self._task, completed=metrics["round"], **fields)

    def _spent(self, epsilon: Mapping[str, float | None]) -> str:
        known = [value for value in epsilon.values() if value is not None]
        spent = f"{max(known):.3f}" if known else "∞"
        return f"{spent} of {self._budget:g}" if self._budget and known else spent

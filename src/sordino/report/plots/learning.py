"""How good the model became, round by round."""

from __future__ import annotations

from sordino.charts import Axis, Chart, ChartKind, Rule, Series
from sordino.report.view import RunView


def charts(view: RunView) -> list[Chart]:
    """Returns accuracy and loss on the test set by round."""
    return [*accuracy(view), *loss(view)]


def accuracy(view: RunView) -> list[Chart]:
    """Returns the accuracy chart; none for regression."""
    x, y = measured(view, "accuracy")
    if not x:
        return []
    goal = view.recipe.run.target
    return [
        Chart(
            "accuracy",
            "Test accuracy by round",
            "Share of the test records that the released model gets right.",
            Axis("round"),
            Axis("accuracy", percent=True, range=(0.0, 1.0)),
            (Series("test accuracy", x, y, _kind(x)),),
            () if goal is None else (Rule(goal, f"target {goal:.0%}", 7),),
        )
    ]


def loss(view: RunView) -> list[Chart]:
    """Returns the loss chart; none without a test set."""
    x, y = measured(view, "loss")
    if not x:
        return []
    note = "Mean loss of the released model over the test records."
    return [
        Chart(
            "loss", "Test loss by round", note, Axis("round"), Axis("loss"), (Series("test loss", x, y, _kind(x), 3),)
        )
    ]


def measured(view: RunView, field: str) -> tuple[list[int], list[float]]:
    """Returns the rounds in which a metric was measured, and its values."""
    lines = [line for line in view.rounds if line.get(field) is not None]
    return [line["round"] for line in lines], [line[field] for line in lines]


def _kind(x: list[int]) -> ChartKind:
    return "line" if len(x) > 40 else "both"

"""The comparison as charts: accuracy against ε, the final scores, and how each got there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sordino.charts import Axis, Chart, Rule, Series, spanning
from sordino.compare.contest import CEILING, Class
from sordino.compare.standing import Result, Standing
from sordino.report.reading import read


def charts(kind: Class, rows: Sequence[Standing], results: Sequence[Result], top: float | None) -> list[Chart]:
    """Returns the charts of one class."""
    colors = colors_of(rows)
    drawn = []
    if len({row.epsilon for row in rows}) > 1:
        drawn.append(_tradeoff(kind, rows, colors, top))
    elif len(rows) > 1:
        drawn.append(_scored(kind, rows, colors, top))
    drawn.append(_by_round(kind, results, colors))
    if any(row.claimed is not None for row in rows):
        drawn.append(_claims(kind, rows))
    return [chart for chart in drawn if chart.series]


def colors_of(rows: Sequence[Standing]) -> dict[str, int]:
    """Returns the colour that each contender has throughout its class."""
    labels = sorted({row.contender.label for row in rows})
    return {label: place for place, label in enumerate(labels)}


def key(kind: Class, name: str) -> str:
    """Returns a chart's name within its class."""
    return f"{kind.unit}-{kind.trust}-{name}"


def _ceiling(top: float | None) -> tuple[Rule, ...]:
    return () if top is None else (Rule(top, "without privacy", 7),)


def _scores(rows: Sequence[Standing]) -> Axis:
    if any(row.mean < 0 for row in rows):
        return Axis("− test loss")
    return Axis("test accuracy", percent=True, range=(0.0, 1.02))


def _tradeoff(kind: Class, rows: Sequence[Standing], colors: Mapping[str, int], top: float | None) -> Chart:
    series = []
    for label in dict.fromkeys(row.contender.label for row in rows):
        mine = sorted((row for row in rows if row.contender.label == label), key=lambda row: row.epsilon)
        x, y = [row.epsilon for row in mine], [row.mean for row in mine]
        low, high = [row.band[0] for row in mine], [row.band[1] for row in mine]
        series.append(Series(label, x, y, "both", colors[label], low=low, high=high))
    note = "Mean over seeds after the last round, at each budget; the band is one standard deviation."
    axes = Axis("ε", log=True, ticks=sorted({row.epsilon for row in rows})), _scores(rows)
    return Chart(key(kind, "tradeoff"), "Accuracy against ε", note, *axes, tuple(series), _ceiling(top))


def _scored(kind: Class, rows: Sequence[Standing], colors: Mapping[str, int], top: float | None) -> Chart:
    series = []
    for row in sorted(rows, key=lambda row: row.rank):
        label, (low, high) = row.contender.label, row.band
        series.append(Series(label, [label], [row.mean], "dots", colors[label], low=[low], high=[high]))
    note = f"Mean over seeds after the last round at ε = {rows[0].epsilon:g}; whiskers are one standard deviation."
    axes = Axis("", categories=True), _scores(rows)
    return Chart(key(kind, "scores"), "Final score", note, *axes, tuple(series), _ceiling(top))


def _by_round(kind: Class, results: Sequence[Result], colors: Mapping[str, int]) -> Chart:
    largest = max(r.trial.epsilon for r in results if r.trial.contender.kind == kind)
    series = []
    free = [r.trial.contender.label for r in results if r.trial.contender.recipe.mechanism.name == CEILING][:1]
    for label in [*colors, *free]:
        here = [
            r for r in results if r.trial.contender.label == label and (label in free or r.trial.epsilon == largest)
        ]
        rounds, paths = _paths(here)
        if not rounds:
            continue
        mean, std = paths.mean(0), paths.std(0, ddof=1) if len(paths) > 1 else np.zeros(paths.shape[1])
        y, low, high = ([float(v) for v in values] for values in (mean, mean - std, mean + std))
        series.append(Series(label, rounds, y, "line", colors.get(label, 7), label in free, low, high))
    note = f"Mean over seeds at ε = {largest:g}, as far as all of them played; the band is one standard deviation."
    title = "Test accuracy by round"
    axes = Axis("round"), Axis("test accuracy", percent=True, range=(0.0, 1.02))
    return Chart(key(kind, "rounds"), title, note, *axes, tuple(series))


def _paths(results: Sequence[Result]) -> tuple[list[int], np.ndarray]:
    """Returns the rounds that all these trials measured, and one row of scores a trial."""
    measured = []
    for found in results:
        lines = read(found.trial.folder).rounds
        measured.append({line["round"]: line["accuracy"] for line in lines if line.get("accuracy") is not None})
    common = sorted(set.intersection(*(set(path) for path in measured))) if measured else []
    return common, np.array([[path[round_] for round_ in common] for path in measured])


def _claims(kind: Class, rows: Sequence[Standing]) -> Chart:
    budgets = {row.epsilon for row in rows}
    claiming = [row for row in rows if row.claimed is not None]
    names = [_named(row, len(budgets) > 1) for row in claiming]
    axis = spanning("ε", [value for row in claiming for value in (row.claimed, row.certified)])
    series = (
        Series("claimed", names, [row.claimed for row in claiming], "bars", 4),
        Series("certified", names, [row.certified for row in claiming], "bars", 1),
    )
    note = "What the paper's formula says, beside what is proved for the code that ran (∞: nothing is)."
    title = "Claimed and certified ε"
    return Chart(key(kind, "claims"), title, note, Axis("", categories=True), axis, series)


def _named(row: Standing, budgets: bool) -> str:
    """Returns a contender's name, with its budget where there are several, and with what no bar could show."""
    parts = [row.contender.label, f"ε {row.epsilon:g}" if budgets else "", "" if row.certified else "certified: ∞"]
    return ", ".join(part for part in parts if part)

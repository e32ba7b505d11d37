"""What only one mechanism has to show: component scales, distances between updates, who was selected."""

from __future__ import annotations

import numpy as np

from sordino.report.chart import Axis, Boxes, Chart, Series, marks
from sordino.report.reading import RunView

_MOST_DOTS = 2000


def charts(view: RunView) -> list[Chart]:
    """Returns the charts of the run's mechanism, if it has any of its own."""
    return [*component_scales(view), *truncation(view), *differences(view), *selection(view)]


def component_scales(view: RunView) -> list[Chart]:
    """Returns the noise scales of component_adaptive, one box a tensor of the model."""
    scales = view.knobs.get("scales")
    if scales is None or scales.size < 2:
        return []
    parts = view.components or {"all components": slice(0, scales.size)}
    summaries = [_five(scales[part]) for part in parts.values()]
    note = "Noise of each component relative to the average one, after the last round: made from released models only."
    boxes = Boxes("scale", list(parts), summaries)
    ends = [value for five in summaries for value in five if value > 0]
    axis = Axis("relative scale", log=True, ticks=marks(min(ends), max(ends)) if ends else None)
    return [Chart("scales", "Component scales", note, Axis("component", categories=True), axis, (boxes,))]


def truncation(view: RunView) -> list[Chart]:
    """Returns parameters before and after truncation (component_adaptive, faithful, with `run.notes`)."""
    before, after = view.notes.get("original"), view.notes.get("truncated")
    if before is None or after is None or not len(before):
        return []
    rounds = view.notes.get("round", np.arange(1, len(before) + 1))
    chosen = np.unique(np.linspace(0, len(before) - 1, min(len(before), 12)).astype(int))
    boxes = tuple(
        Boxes(name, [str(int(rounds[place])) for place in chosen], [_row(rows[place]) for place in chosen], color)
        for color, (name, rows) in enumerate((("as trained", before), ("truncated", after)))
    )
    note = "Parameters of one client before and after truncation. Private: recorded because run.notes asked for it."
    axes = Axis("round", categories=True), Axis("parameter value")
    return [Chart("truncation", "Original and truncated parameters", note, *axes, boxes, wide=True)]


def differences(view: RunView) -> list[Chart]:
    """Returns Diff, the distance that was measured, and the correlation of the noise that follows (fed_cad)."""
    lines = [line for line in view.played if "difference" in line.get("knobs", {})]
    if not lines:
        return []
    rounds, diff = view.played_with("difference")
    series = [
        Series("Diff D", rounds, diff, "step", 0),
        Series("noise correlation 1 − D", rounds, [None if d is None else 1 - d for d in diff], "step", 1, dashed=1),
    ]
    gaps = [max(0.0, line["knobs"].get("gap") or 0.0) ** 0.5 for line in lines]
    if any(gaps):
        series.append(Series("distance seen in releases", [line["round"] for line in lines], gaps, color=2))
    note = (
        "Diff is how far an update may move from the client's last one, over the clip norm, in each round. In the long "
        "run a client keeps the share 1 − D of its last noise. What releases show sets the next round's Diff."
    )
    axis = Axis("share of the clip norm", range=(0.0, 1.05 * max(1.0, *gaps)))
    return [Chart("difference", "Diff and correlation by round", note, Axis("round"), axis, tuple(series))]


def selection(view: RunView) -> list[Chart]:
    """Returns how often each client took part against how unusual its labels are (a_dpfl)."""
    scores, times = view.knobs.get("scores"), view.participations
    if scores is None or scores.size != times.size or not len(view.played):
        return []
    chosen = np.unique(np.linspace(0, scores.size - 1, min(scores.size, _MOST_DOTS)).astype(int))
    far = -np.log(np.clip(scores[chosen], 1e-12, None))
    share = np.minimum(1.0, times[chosen] / len(view.played))
    words = [f"client {c}: distance {f:.2f}, {n} rounds" for c, f, n in zip(chosen, far, times[chosen], strict=True)]
    dots = Series("clients", [float(x) for x in far], [float(y) for y in share], "dots", 3, hover=words)
    note = (
        "Share of rounds in which each client was selected and sent something, against how far its labels are from "
        "everybody's (Wasserstein distance, on average 1)."
    )
    axes = Axis("heterogeneity of labels"), Axis("rounds", percent=True, range=(-0.02, 1.05))
    return [Chart("selection", "Participation against heterogeneity", note, *axes, (dots,))]


def _five(values: np.ndarray) -> tuple[float, float, float, float, float]:
    return _row(np.quantile(values, (0.0, 0.25, 0.5, 0.75, 1.0)))


def _row(values: np.ndarray) -> tuple[float, float, float, float, float]:
    low, first, middle, third, high = (float(value) for value in np.ravel(values)[:5])
    return low, first, middle, third, high

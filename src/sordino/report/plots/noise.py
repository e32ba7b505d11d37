"""How much noise there was, how much was clipped, and how the public knobs moved."""

from __future__ import annotations

from sordino.charts import Axis, Chart, Series
from sordino.report.view import RunView

_NAMES = {
    "clip_norm": "clip norm",
    "noise_multiplier": "noise multiplier",
}
_INNER = {"smoothed", "gap", "score", "difference"}
"""Knobs that only carry an adapter's memory, or have a chart of their own."""


def charts(view: RunView) -> list[Chart]:
    """Returns noise amplitude, clip fraction, and every scalar knob that changed."""
    return [*amplitude(view), *clipped(view), *knobs(view)]


def amplitude(view: RunView) -> list[Chart]:
    """Returns the noise on each coordinate of the released mean."""
    values = [line.get("noise_stddev") for line in view.played]
    if view.public and not any(values):
        return []
    note = "Standard deviation of the noise on each coordinate of the released mean update."
    if not any(values):
        note += " There was none in any round."
    series = Series("noise", _rounds(view), values, "step", 1)
    return [Chart("noise", "Noise amplitude by round", note, Axis("round"), Axis("standard deviation"), (series,))]


def clipped(view: RunView) -> list[Chart]:
    """Returns the share of contributions that the bound changed; none where they were clipped in training."""
    values = [line.get("clip_fraction") for line in view.played]
    if all(value is None for value in values):
        return []
    series = Series("clipped", _rounds(view), values, color=2)
    note = "Share of contributions that the bound made smaller. Private: known here because this is a simulation."
    fraction = Axis("clipped", percent=True, range=(0.0, 1.04))
    return [Chart("clipping", "Clipped contributions by round", note, Axis("round"), fraction, (series,))]


def knobs(view: RunView) -> list[Chart]:
    """Returns one chart for each public number that the mechanism moved."""
    out = []
    for name in dict.fromkeys(name for line in view.played for name in line.get("knobs", {}) if name not in _INNER):
        rounds, values = view.played_with(name)
        if len({value for value in values if value is not None}) > 1:
            title = _NAMES.get(name, name.replace("_", " "))
            note = "What each round was played with: a public number, fixed beforehand or made from earlier releases."
            series = Series(title, rounds, values, "step", 4)
            heading = f"{title[0].upper()}{title[1:]} by round"
            out.append(Chart(f"knob-{name}", heading, note, Axis("round"), Axis(title), (series,)))
    return out


def _rounds(view: RunView) -> list[int]:
    return [line["round"] for line in view.played]

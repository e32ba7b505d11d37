"""A small plot for the terminal: a few falling or rising series over common places, logarithmic upwards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_HEIGHT = 10
_MARKS = "ox+*#%@"


def chart(series: Mapping[str, Sequence[float]], places: Sequence[int]) -> str:
    """Returns lines of text: one mark a series, one column a place, the largest value on top."""
    values = [value for points in series.values() for value in points if value > 0]
    if not values:
        return ""
    low, high = math.log(min(values)), math.log(max(values))
    span = max(high - low, 1e-9)
    width = max(8, *(len(str(place)) + 2 for place in places))
    rows = [[" "] * (width * len(places)) for _ in range(_HEIGHT)]
    for mark, points in zip(_MARKS, series.values(), strict=False):
        for column, value in enumerate(points):
            row = round((high - math.log(value)) / span * (_HEIGHT - 1))
            # Series that meet stand side by side instead of hiding each other.
            start = column * width
            free = next((x for x in range(start, start + width) if rows[row][x] == " "), start)
            rows[row][free] = mark
    labels = [math.exp(high - span * row / (_HEIGHT - 1)) for row in range(_HEIGHT)]
    lines = [f"{label:9.3g} │{''.join(row)}" for label, row in zip(labels, rows, strict=True)]
    lines.append(" " * 10 + "└" + "─" * (width * len(places)))
    lines.append(" " * 11 + "".join(str(place).ljust(width) for place in places) + "rounds")
    legend = "   ".join(f"{mark} {name}" for mark, name in zip(_MARKS, series, strict=False))
    return "\n".join([*lines, " " * 11 + legend])

"""Pictures that several papers share: printed values beside ours, place by place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sordino.charts import Axis, Chart, Rule, Series


def beside(
    key: str,
    title: str,
    x: str,
    places: Sequence[str],
    columns: Mapping[str, Sequence[float | None]],
    y: Axis,
    rules: tuple[Rule, ...] = (),
) -> Chart:
    """Returns bars: the columns (`printed` and ours) side by side at every place; None leaves a gap."""
    series = tuple(
        Series(label, list(places), list(values), "bars", color)
        for color, (label, values) in enumerate(columns.items())
    )
    return Chart(key, title, "Printed beside ours.", Axis(x, categories=True), y, series, rules, wide=len(places) > 8)

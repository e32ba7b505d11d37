"""Where the time went."""

from __future__ import annotations

from sordino.charts import Axis, Chart, Series
from sordino.report.view import RunView


def charts(view: RunView) -> list[Chart]:
    """Returns seconds spent in each stage of a round, over the whole run."""
    totals: dict[str, float] = {}
    for line in view.played:
        for stage, seconds in line.get("seconds", {}).items():
            totals[stage] = totals.get(stage, 0.0) + seconds
    if not totals:
        return []
    series = Series("seconds", list(totals), list(totals.values()), "bars", 6)
    note = "Seconds in each stage, over all rounds, on the machine that ran the simulation."
    return [Chart("time", "Where the time went", note, Axis("stage", categories=True), Axis("seconds"), (series,))]

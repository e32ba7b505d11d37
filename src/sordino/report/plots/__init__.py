"""The charts of a report: one module a subject, each a function from a run to the charts it can fill."""

from collections.abc import Callable

from sordino.report.chart import Chart
from sordino.report.plots import learning, mechanism, noise, people, privacy, time
from sordino.report.reading import RunView

PLOTS: tuple[Callable[[RunView], list[Chart]], ...] = (
    learning.charts,
    privacy.charts,
    noise.charts,
    mechanism.charts,
    people.cohorts,
    time.charts,
    people.label_map,
)
"""In the order of the page."""


def charts(view: RunView) -> list[Chart]:
    """Returns every chart that the run has numbers for."""
    return [chart for plot in PLOTS for chart in plot(view)]

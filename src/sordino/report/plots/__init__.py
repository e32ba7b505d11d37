"""The charts of a report: one module a subject, each a function from a run to the charts it can fill."""

from collections.abc import Callable

from sordino.charts import Chart
from sordino.mechanisms import MECHANISMS
from sordino.report.plots import learning, noise, people, privacy, time
from sordino.report.view import RunView


def _own(view: RunView) -> list[Chart]:
    """Returns the charts that the run's mechanism brings itself."""
    return [chart for make in MECHANISMS[view.recipe.mechanism.name].charts for chart in make(view)]


PLOTS: tuple[Callable[[RunView], list[Chart]], ...] = (
    learning.charts,
    privacy.charts,
    noise.charts,
    _own,
    people.cohorts,
    time.charts,
    people.label_map,
)
"""In the order of the page."""


def charts(view: RunView) -> list[Chart]:
    """Returns every chart that the run has numbers for."""
    return [chart for plot in PLOTS for chart in plot(view)]

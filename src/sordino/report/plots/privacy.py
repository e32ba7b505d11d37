"""What the run cost: by round for each observer, and spread over the clients."""

from __future__ import annotations

import numpy as np

from sordino.report.chart import Axis, Chart, Rule, Series
from sordino.report.reading import RunView
from sordino.report.words import number, small

_COLORS = {"server": 1, "outsider": 0}
_BINS = 30


def charts(view: RunView) -> list[Chart]:
    """Returns ε by round and its distribution over clients."""
    return [*by_round(view), *over_clients(view), *over_delta(view)]


def by_round(view: RunView) -> list[Chart]:
    """Returns the worst client's ε after each round, for each observer, under the budget's line."""
    lines = view.played
    series: list[Series] = []
    for key in dict.fromkeys(key for line in lines for key in line.get("epsilon", {})):
        values = [line.get("epsilon", {}).get(key) for line in lines]
        if any(value is not None for value in values):
            # Observers often cost the same: a dashed line over a full one shows both.
            rounds, over = [line["round"] for line in lines], bool(series)
            series.append(Series(told(key), rounds, values, color=color(key), dashed=over))
    if not series:
        return []
    budget = view.recipe.budget.epsilon
    return [
        Chart(
            "epsilon",
            "Privacy spent by round",
            f"Certified ε of the client that paid most, at δ = {small(view.recipe.budget.delta)}.",
            Axis("round"),
            Axis("ε"),
            tuple(series),
            () if budget is None else (Rule(budget, f"budget {budget:g}"),),
        )
    ]


def over_clients(view: RunView) -> list[Chart]:
    """Returns how many clients spent how much, against each observer that is bounded for all of them."""
    finite = {key: costs for key, costs in view.costs.items() if np.isfinite(costs).all()}
    if not finite:
        return []
    top = max(float(costs.max()) for costs in finite.values())
    edges = np.linspace(0, top or 1.0, _BINS + 1)
    centres = [float(x) for x in (edges[:-1] + edges[1:]) / 2]
    series = tuple(
        Series(
            told(key),
            centres,
            [int(n) for n in np.histogram(costs, edges)[0]],
            "bars",
            color(key),
            hover=[
                f"{n:,} clients with ε between {number(float(a))} and {number(float(b))}"
                for n, a, b in zip(np.histogram(costs, edges)[0], edges[:-1], edges[1:], strict=True)
            ],
        )
        for key, costs in finite.items()
    )
    note = "Clients pay for rounds in which a message left them; what sampling hides from an outsider, all pay alike."
    return [
        Chart(
            "epsilon-clients",
            "Privacy spent, over clients",
            note,
            Axis("ε", range=(0.0, 1.08 * edges[-1])),
            Axis("clients"),
            series,
        )
    ]


def over_delta(view: RunView) -> list[Chart]:
    """Returns the whole promise ε(δ) of each certified entry."""
    series: list[Series] = []
    for entry in view.certificate:
        points = [(delta, epsilon) for delta, epsilon in entry.get("curve", ()) if epsilon is not None]
        if points:
            key = f"{entry['unit']}/{entry['observer']}"
            x, y = [point[0] for point in points], [point[1] for point in points]
            series.append(Series(told(key), x, y, "both", color(key), dashed=bool(series)))
    if not series:
        return []
    note = "The same promise at other δ: every point of the curve holds at once."
    return [Chart("epsilon-delta", "The promise as a curve", note, Axis("δ", log=True), Axis("ε"), tuple(series))]


def told(key: str) -> str:
    """Returns `record/server` as words."""
    unit, observer = key.split("/")
    return f"{unit} against {observer}"


def color(key: str) -> int:
    """Returns the colour that this observer has in every chart."""
    return _COLORS[key.split("/")[1]]

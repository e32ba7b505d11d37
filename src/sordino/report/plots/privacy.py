"""What the run cost: by round for each observer, and spread over the clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sordino.charts import Axis, Chart, Rule, Series
from sordino.report.view import RunView
from sordino.report.words import adjacency, number, small

_COLORS = {"server": 1, "outsider": 0}
_BINS = 30
_SAME = 0.01
"""Levels closer than this, relatively, are one line with two words on it."""


def charts(view: RunView) -> list[Chart]:
    """Returns ε by round and its distribution over clients."""
    return [*by_round(view), *over_clients(view), *over_delta(view)]


def by_round(view: RunView) -> list[Chart]:
    """Returns the worst client's ε after each round, for each observer, under the lines of what was set and said."""
    lines = view.played
    series: list[Series] = []
    unproved: list[str] = []
    for key in dict.fromkeys(key for line in lines for key in line.get("epsilon", {})):
        values = [line.get("epsilon", {}).get(key) for line in lines]
        if all(value is None for value in values):
            unproved.append(told(key))
            continue
        # Observers often cost the same: a dashed line over a full one shows both.
        rounds, over = [line["round"] for line in lines], len(series)
        series.append(Series(told(key), rounds, values, color=color(key), dashed=over))
    if not series:
        return []
    note = f"Certified ε of the client that paid most, at δ = {small(view.recipe.budget.delta)}. {_why(view)}"
    if unproved:
        note += f"Nothing is proved, and so nothing drawn, for {' and '.join(unproved)}."
    axes = Axis("round"), Axis("ε")
    return [Chart("epsilon", "Privacy spent by round", note.strip(), *axes, tuple(series), levels(view))]


def levels(view: RunView) -> tuple[Rule, ...]:
    """Returns the budget, what the paper claims, and what is promised where that is not what the rounds cost."""
    budget = view.recipe.budget.epsilon
    marks = [] if budget is None else [(budget, f"budget {budget:g}")]
    claims = [entry.get("claimed_epsilon") for entry in view.certificate]
    marks += [(claim, f"claimed {number(claim)}") for claim in dict.fromkeys(claims) if claim is not None]
    marks += [(entry["epsilon"], f"promised {number(entry['epsilon'])}") for entry in beyond(view).values()]
    merged: list[tuple[float, str]] = []
    for level, words in dict.fromkeys(marks):
        near = next((place for place, (other, _) in enumerate(merged) if _close(level, other)), None)
        if near is None:
            merged.append((level, words))
        elif words not in merged[near][1]:
            merged[near] = (merged[near][0], f"{merged[near][1]}, {words}")
    return tuple(Rule(level, words) for level, words in merged)


def beyond(view: RunView) -> dict[str, Mapping[str, Any]]:
    """Returns the entries that promise another level than the rounds have cost, such as a privacy filter's."""
    spent = view.played[-1].get("epsilon", {}) if view.played else {}
    return {
        key: entry
        for key, entry in view.promises.items()
        if None not in (spent.get(key), entry["epsilon"]) and not _close(spent[key], entry["epsilon"])
    }


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
    promised = dict.fromkeys(entry["epsilon"] for entry in beyond(view).values())
    axis = Axis("ε", range=(0.0, 1.08 * max(edges[-1], *promised, 0.0)))
    rules = tuple(Rule(level, f"promised {number(level)}", upright=True) for level in promised)
    title = "Privacy spent, over clients"
    return [Chart("epsilon-clients", title, f"{note} {_why(view)}".strip(), axis, Axis("clients"), series, rules)]


def over_delta(view: RunView) -> list[Chart]:
    """Returns the whole promise ε(δ) of each certified entry."""
    series: list[Series] = []
    for key, entry in view.promises.items():
        points = [(delta, epsilon) for delta, epsilon in entry.get("curve", ()) if epsilon is not None]
        if points:
            x, y = [point[0] for point in points], [point[1] for point in points]
            series.append(Series(told(key), x, y, "both", color(key), dashed=len(series)))
    if not series:
        return []
    note = "The same promise at other δ: every point of the curve holds at once."
    return [Chart("epsilon-delta", "The promise as a curve", note, Axis("δ", log=True), Axis("ε"), tuple(series))]


def told(key: str) -> str:
    """Returns `record/server` as words, with the adjacency where the name holds one."""
    unit, observer, *hides = key.split("/")
    return f"{unit} against {observer}" + "".join(f" ({adjacency(one)})" for one in hides)


def color(key: str) -> int:
    """Returns the colour that this observer has in every chart."""
    return _COLORS[key.split("/")[1]]


def _why(view: RunView) -> str:
    """Returns why another level is promised than the one that was reached; empty where none is."""
    entries = beyond(view).values()
    why = "; ".join(dict.fromkeys(entry["note"] for entry in entries if entry.get("note")))
    return f"Composed so far; what is promised is the line{why and f' ({why})'}. " if entries else ""


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME * max(abs(one), abs(other))

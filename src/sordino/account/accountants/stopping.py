"""Runs that stop when released values say so: what is certified then (docs/accounting.md, "Stopping").

A run that stops at a target, at a plateau, or when its user has seen enough, stops at a moment that follows from
releases. What it released up to then is a function of what the whole plan would have released. So the price of the
plan holds for every such stop, and the price of the path taken does not.
"""

from __future__ import annotations

from collections import Counter

from sordino.account.accountants.accountant import Curve, price
from sordino.account.accountants.filter import Filter, admits
from sordino.account.accountants.history import History, flatten
from sordino.errors import AccountingError
from sordino.events import DpEvent
from sordino.types import Adjacency


def price_when_stopping(
    planned: History | DpEvent, taken: History | DpEvent, accountant: str = "pld", adjacency: Adjacency = "add_remove"
) -> Curve:
    """Returns the curve of a run with a fixed plan that may have been stopped by what it released.

    Args:
        planned: everything that the plan would have charged the client had nothing stopped it. Where participants pay,
            draw the remaining cohorts (without playing them) and count the client's own; or count every round.
        taken: what was really charged.
        accountant: who prices.
        adjacency: the neighbouring relation.

    Formal guarantees: the curve of the plan, which bounds every rule of stopping at once, whoever chose it and however
    late, if the rule reads nothing but releases.

    Raises:
        AccountingError: more was taken than was planned, so the plan was not what bounds it.
    """
    whole, path = flatten(planned), flatten(taken)
    if any(count > whole[event] for event, count in path.items()):
        beyond = Counter(path) - Counter(whole)
        raise AccountingError(f"the run released more than its plan ({len(beyond)} kinds of events): charge a filter")
    return price(whole, accountant, adjacency)


def epsilon_of_filter(chosen: Filter, taken: History | DpEvent, delta: float, adjacency: Adjacency) -> float:
    """Returns the ε of a run whose noise, or end, followed releases, and which a filter admitted release by release.

    Formal guarantees: the filter's promise at this δ, whatever was taken: the stopping rule is one of the choices that
    the filter allows an adversary.

    Raises:
        AccountingError: the filter did not admit what was taken.
    """
    if not admits(chosen, flatten(taken), adjacency):
        raise AccountingError(f"the {chosen.name} does not admit what was released: nothing is certified")
    return chosen.promised(delta)

"""Which filter holds a node to its budget: chosen from the first plan that it pays for, and kept ever after.

Whoever proposes runs sees what earlier ones released, and may choose the noise of the next one, or whether there is
one, from that. Prices of releases multiply to a total only where they were fixed beforehand; so a node never adds
prices up to decide. It admits releases one by one through a filter (`account.accountants.filter`), over all runs.

A filter needs its kind, and a Rényi filter its order, before the first release. Both are chosen from the plan that
comes with a promise's first charge, when nothing has been released yet, and lie in `state/filters.json`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import attrs
import numpy as np

from sordino import strict_json
from sordino.account.accountants import filter as filters
from sordino.account.accountants.filter import Filter
from sordino.account.accountants.history import flatten
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.coverage import implies
from sordino.account.ledger.ledger import Ledger
from sordino.errors import FederationError
from sordino.events import DpEvent, Guarantee, Unbounded
from sordino.files import PRIVATE, replace_file
from sordino.mechanism import Mechanism

Filters = dict[Guarantee, Filter]
History = Counter[DpEvent]


@dataclass(frozen=True)
class KeptFilters:
    """The filters of one node's promises, as its disk remembers them.

    **Formal guarantees**: over everything that a node ever released under a promise, the filter that stands here
    admitted every release before it left; so its (ε, δ) holds, whoever chose the releases and from whatever they saw.
    **Edge cases**: a ledger older than this file, or a file that is lost, gets the filter that fits its history: then
    the promise rests on nobody having steered by that choice. Where the owner raised ε, the larger one is promised.
    """

    path: Path

    def read(self) -> Filters:
        """Returns every filter, with the ε and δ under which it admitted most.

        Raises:
            FederationError: the file was changed, or is of a newer version.
        """
        if not self.path.exists():
            return {}
        try:
            found: Filters = {}
            for one in strict_json.loads(self.path.read_text()):
                chosen = filters.named(one["filter"], one["epsilon"], one["delta"])
                if chosen is None:
                    raise ValueError(one["filter"])
                found[Guarantee(one["unit"], one["observer"], one["adjacency"])] = chosen
            return found
        except (ValueError, KeyError, TypeError) as error:
            raise FederationError(f"{self.path} cannot be read ({error}): restore it from its copy") from None

    def keep(self, admitting: Mapping[Guarantee, Filter]) -> None:
        """Writes down which filters admit a release, before it is paid for; what is known already costs nothing."""
        known = self.read()
        other = {guarantee: one for guarantee, one in admitting.items() if known.get(guarantee) != one}
        larger = {g: one for g, one in other.items() if g not in known or known[g].capacity < one.capacity}
        if larger:
            told = [
                attrs.asdict(guarantee) | {"filter": one.name, "epsilon": one.epsilon, "delta": one.delta}
                for guarantee, one in (known | larger).items()
            ]
            replace_file(self.path, json.dumps(told, indent=1).encode(), PRIVATE)

    def admitting(self, ledger: Ledger, mechanism: Mechanism, rounds: int, budget: Budget) -> Filters:
        """Returns the filter of every promise that was made, or that a plan would make, at the node's budget."""
        charged, kept = ledger.guarantees, self.read()
        made = {guarantee: kept[guarantee] for guarantee in charged if guarantee in kept}
        for guarantee in charged:
            if guarantee not in made:
                made[guarantee] = _chosen(budget, ledger.book(guarantee).histories(np.array([0]))[0], guarantee)
        for guarantee, history in planned(mechanism, rounds).items():
            # a promise that older releases count under, too, is not begun now: it goes on under the older one's filter
            older = next((made[one] for one in charged if one in made and implies(one, guarantee)), None)
            made.setdefault(guarantee, older or _chosen(budget, history, guarantee))
        return {guarantee: _at(one.name, budget) for guarantee, one in made.items()}


def planned(mechanism: Mechanism, rounds: int) -> dict[Guarantee, History]:
    """Returns what a plan would release under each of its promises, the sums before its first round included."""
    found: dict[Guarantee, History] = {}

    def add(prices: tuple[tuple[Guarantee, DpEvent], ...], times: int, whole: DpEvent | None = None) -> None:
        for guarantee, event in prices:
            if not isinstance(event, Unbounded):
                history = found.setdefault(guarantee, Counter())
                for leaf, count in flatten(whole or event).items():
                    history[leaf] += count * times

    for one in mechanism.preparation:
        add(one.mechanism.perturber.price(one.mechanism.adapter.start(), 0), 1)
    if mechanism.opening is not None:
        add(mechanism.opening.price(), 1)
    prices, whole = mechanism.perturber.price(mechanism.adapter.start()), mechanism.planned
    add(prices, 1 if whole is not None else rounds, whole)
    return found


def _chosen(budget: Budget, history: History, guarantee: Guarantee) -> Filter:
    return filters.filter_for(budget.epsilon, budget.delta, history, guarantee.adjacency)


def _at(name: str, budget: Budget) -> Filter:
    """Returns a filter at the node's budget as it is now; by its name, which is what is kept of it."""
    found = filters.named(name, budget.epsilon, budget.delta)
    assert found is not None
    return found

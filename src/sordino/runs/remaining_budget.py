"""A second study on a ledger plans its noise with what the first ones left of the budget."""

from __future__ import annotations

from collections import Counter

from sordino.account.accountants.accountant import price
from sordino.account.ledger.ledger import Ledger
from sordino.events import DpEvent, Guarantee, SelfComposedDpEvent, Unbounded
from sordino.mechanisms import MECHANISMS
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.runs.setup import noise_beside

_ALMOST_ALL = 0.95
"""Who has spent this share of a budget has nothing left to plan a run with."""


def planned_with_left(context: RunContext) -> tuple[Recipe, str] | None:
    """Returns the recipe with noise for what earlier releases on its ledger leave of the budget, and a sentence on it.

    None where there is nothing to plan with: a ledger of its own, noise that is set, a mechanism that shapes its noise
    otherwise, or a ledger on which a client that took part in everything has nothing left (others may have).

    **Formal guarantees**: the plan follows from the list of releases on the ledger, which no promise covers, as if one
    client had paid for all of them: who took part in which of them has no say, so the plan gives nobody away.
    """
    recipe, path = context.recipe, context.recipe.ledger.path
    spec, chosen, budget = MECHANISMS[recipe.mechanism.name], recipe.mechanism, recipe.budget
    if path is None or not path.exists() or recipe.ledger.plan == "whole" or budget.epsilon is None:
        return None
    if chosen.noise_multiplier is not None or chosen.mode != "certified" or not spec.prepares:
        return None
    spent: dict[Guarantee, Counter[DpEvent]] = {}
    with Ledger.open(path, write=False) as ledger:
        for charge in (charge for entry in ledger.entries for charge in entry.charges):
            spent.setdefault(charge.guarantee, Counter())[charge.event] += 1
    wanted = {charge.guarantee for charge in context.mechanism.quote(context.mechanism.adapter.start())}
    bounded = {
        guarantee: history
        for guarantee, history in spent.items()
        if guarantee in wanted and not any(isinstance(event, Unbounded) for event in history)
    }
    costs = [price(history, adjacency=one.adjacency).epsilon(budget.delta) for one, history in bounded.items()]
    if not costs or max(costs) > _ALMOST_ALL * budget.epsilon:
        return None
    before = tuple(
        (guarantee, SelfComposedDpEvent(event, count))
        for guarantee, history in bounded.items()
        for event, count in history.items()
    )
    multiplier = noise_beside(context, before)
    sentence = (
        f"earlier releases on this ledger cost up to ε = {max(costs):.4g} of {budget.epsilon:g}: noise is planned for "
        f"what is left, mechanism.noise_multiplier = {multiplier:.4g} (ledger.plan = 'whole': as if none were)"
    )
    return recipe.but(mechanism={"noise_multiplier": multiplier}), sentence

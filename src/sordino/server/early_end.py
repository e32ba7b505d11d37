"""The chance that one client's own coins decide when a run ends, over its real schedule.

A run ends when too few clients can pay for the next release. Who can pay depends on who took part, and so on coins
that an outsider must not see (docs/accounting.md, "Ending a run early"). The chance is taken out of an outsider's δ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sordino.account.accountants.accountant import epsilon as price
from sordino.account.accountants.filter import filter_for
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.entry import LedgerEntry
from sordino.account.ledger.leaving import chance_over_schedule, hides_presence, told_by_an_end
from sordino.account.ledger.ledger import Ledger
from sordino.events import Charge, ComposedDpEvent, DpEvent, Guarantee, PoissonSampledDpEvent, Unbounded

PlannedCharges = Sequence[Sequence[Charge]]
"""What each planned round costs, in the order of the rounds."""


def chance_of_early_end(
    ledger: Ledger, run: str, schedule: PlannedCharges, budget: Budget, minimum: int, least: int | None = None
) -> float:
    """Returns a bound on that chance; 0 where coins cannot matter, 1 (no credit) where nothing better is proved.

    **Formal guarantees**: if every client can pay for *all* planned rounds on top of what it paid before this run, no
    coin can end it. Otherwise, for independent coins on a ledger without earlier runs, `chance_over_schedule` bounds
    the chance from the whole schedule, dear rounds included, in the additive cost of a privacy filter: a client that
    the accountant bars has exceeded that filter's capacity, too, so inability is never underestimated. Only clients
    of this run that could be selected in its first round are counted on: who joins late, or belongs to another run of
    the federation, keeps no early round going.
    The number is published, so it must not tell how many clients there are where that is promised to be hidden: with
    `least`, the fewest that the declaration allows for, it is that of `least` clients, whoever else is there.
    **Edge cases**: fewer than `least` clients are not what was declared: 1. With no more clients than `minimum` a run
    does not even begin without one of them, which shows that it is there: 1 where its presence is to be hidden
    (`add_remove`). So it is where clients differ in what they may spend or have spent, and no more than `minimum` can
    pay for what the whole plan charges to all alike: then one client more can keep a run going that would have ended
    without it, whether or not coins are involved. A round that the run has paid for again (it was killed, and draws
    fresh noise) is one more, for which its budget was not planned.
    """
    schedule = with_rounds_paid_again(ledger.of(run), schedule)
    told = [charge for charges in schedule for charge in charges]
    if not any(told_by_an_end(charge) for charge in told):
        return 0.0
    hides, clients = any(map(hides_presence, told)), _there(ledger, run)
    if least is not None:
        clients = least if clients >= least else 0
    if hides and clients <= minimum:
        return 1.0
    earlier = bool(ledger.beside(run))
    amplified = [charge for charge in told if charge.payers == "eligible"]
    if hides and (earlier or budget.clients):
        # of what falls on all alike no coin decides who can pay: only what clients may spend, and have spent
        alike = _by_guarantee(schedule, "eligible" if amplified else "participants")
        if _able(ledger, run, alike, budget, clients) <= minimum:
            return 1.0
    if not amplified or all_can_pay(ledger, run, schedule, budget):
        return 0.0
    strictest, plans = min([budget.epsilon, *budget.clients.values()]), _by_guarantee(schedule)
    if earlier or not all(isinstance(charge.event, PoissonSampledDpEvent) for charge in amplified):
        return 1.0
    if not clients:
        return 1.0
    total = 0.0
    for guarantee, plan in plans.items():
        rates = _rates(schedule, guarantee)
        chosen = filter_for(strictest, budget.delta, ComposedDpEvent(tuple(plan)), guarantee.adjacency)
        costs = [chosen.cost(event, guarantee.adjacency) for event in plan]
        left = np.full(clients, chosen.capacity)
        total += chance_over_schedule(left, min(minimum, clients), rates, costs, chosen.capacity)
    return min(1.0, total)


def with_rounds_paid_again(entries: Sequence[LedgerEntry], schedule: PlannedCharges) -> PlannedCharges:
    """Returns what a run's planned rounds cost, with each round that it has paid for again once more, in its place.

    A run that draws fresh noise and is killed between release and checkpoint plays that round again, and pays again.
    """
    met, again = set[tuple[int, str]](), dict[int, list[tuple[Charge, ...]]]()
    for entry in entries:
        if entry.charges and (entry.round_, entry.fingerprint) in met:
            again.setdefault(entry.round_, []).append(entry.charges)
        elif entry.charges:
            met.add((entry.round_, entry.fingerprint))
    if not again or not schedule:
        return schedule
    before = tuple(charge for charges in again.get(0, ()) for charge in charges)
    told = [(*before, *schedule[0]), *again.get(1, ())]
    for round_, planned in enumerate(schedule[1:], 2):
        told += [tuple(planned), *again.get(round_, ())]
    return told


def _able(ledger: Ledger, run: str, plans: Mapping[Guarantee, Sequence[DpEvent]], budget: Budget, clients: int) -> int:
    """Returns how many of the clients at least can pay for the whole plan."""
    dearest = max((_cost(ledger, run, guarantee, plan, budget) for guarantee, plan in plans.items()), default=0.0)
    stricter = sum(limit * (1 + 1e-9) < dearest for limit in budget.clients.values())
    return clients - stricter if dearest <= budget.epsilon * (1 + 1e-9) else 0


def all_can_pay(ledger: Ledger, run: str, schedule: PlannedCharges, budget: Budget) -> bool:
    """Returns whether whoever paid for all of the earlier runs could pay for the whole plan, at the strictest limit."""
    strictest = min([budget.epsilon, *budget.clients.values()])
    plans = _by_guarantee(schedule).items()
    return all(_affordable(ledger, run, guarantee, plan, strictest, budget) for guarantee, plan in plans)


def _there(ledger: Ledger, run: str) -> int:
    """Returns how many clients could be selected in the run's first round (all of them if none was played)."""
    for entry in ledger.entries:
        if entry.run == run and entry.round_ > 0:
            return max(1, entry.excluded.population - len(entry.excluded))
    return len(ledger.members)


def _by_guarantee(schedule: PlannedCharges, payers: str = "participants") -> dict[Guarantee, list[DpEvent]]:
    """Returns what a client pays that takes part in every round, for each promise; or what all pay alike."""
    plans: dict[Guarantee, list[DpEvent]] = {}
    for charges in schedule:
        for charge in _paid(charges, payers):
            plans.setdefault(charge.guarantee, []).append(charge.event)
    return plans


def _affordable(
    ledger: Ledger, run: str, guarantee: Guarantee, plan: Sequence[DpEvent], epsilon: float, budget: Budget
) -> bool:
    """Returns whether a client that paid every charge of earlier runs can pay for the whole plan, too."""
    return _cost(ledger, run, guarantee, plan, budget) <= epsilon * (1 + 1e-9)


def _cost(ledger: Ledger, run: str, guarantee: Guarantee, plan: Sequence[DpEvent], budget: Budget) -> float:
    """Returns ε of the whole plan for a client that paid every charge of earlier runs."""
    before = [charge.event for entry in ledger.beside(run) for charge in entry.charges if charge.guarantee == guarantee]
    return price(ComposedDpEvent((*before, *plan)), budget.delta, adjacency=guarantee.adjacency)


def _rates(schedule: PlannedCharges, guarantee: Guarantee) -> list[float]:
    """Returns each charge's chance to fall on one client: the round's, and 1 for what all release before the first."""
    rates: list[float] = []
    for charges in schedule:
        coin = max(charge.event.sampling_probability for charge in charges if charge.payers == "eligible")
        mine = [charge for charge in _paid(charges) if charge.guarantee == guarantee]
        rates += [1.0] * (len(mine) - 1) + [coin] * bool(mine)
    return rates


def _paid(charges: Sequence[Charge], payers: str = "participants") -> list[Charge]:
    return [c for c in charges if c.payers == payers and not isinstance(c.event, Unbounded)]

"""When leaving clients out could show who took part: the chance that a run's end depends on secret coins.

A client that has used up its own budget is left out, and that costs an outsider's guarantee nothing
(docs/accounting.md, "Leaving clients out"). But a run that *ends* when fewer than `minimum` clients can still pay ends
at a moment that depends on coins. Unless enough others are left, one client's coins can decide it; the chance of that
is added to δ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import binom

from sordino.account.ledger.entry import LedgerEntry
from sordino.errors import AccountingError
from sordino.events import Charge
from sordino.types import FloatArray, IntArray

_UNITS = 2048
"""Steps of the grid on which costs are added up, each rounded up to it."""


def hides_presence(charge: Charge) -> bool:
    """Returns whether a charge's promise is that nobody learns whether a client is there."""
    return charge.guarantee.unit == "client" and charge.guarantee.adjacency == "add_remove"


def told_by_an_end(charge: Charge) -> bool:
    """Returns whether a promise rests on coins, or hides presence, which the end of a run could show."""
    return charge.payers == "eligible" or hides_presence(charge)


def chance_written_down(entries: Iterable[LedgerEntry]) -> float:
    """Returns a bound on the chance that coins decided the end of any run, as the runs' releases wrote it down.

    **Formal guarantees**: a promise to the federation's clients is about the releases of all runs together, so whatever
    one of these runs takes out of δ is taken out of the δ of all. A run that coins ended counts as 1.
    """
    worst: dict[str, float] = {}
    for entry in entries:
        if not entry.charges or any(map(told_by_an_end, entry.charges)):
            worst[entry.run] = max(worst.get(entry.run, 0.0), entry.early_end)
    return min(1.0, sum(worst.values()))


def chance_over_schedule(
    left: FloatArray, minimum: int, rates: Sequence[float], costs: Sequence[float], capacity: float | None = None
) -> float:
    """Returns a bound on the chance that one client's own coins decide when a run ends, over its real schedule.

    Args:
        left: what each client can still spend in the additive cost, after everything that it paid before this run.
            Clients that are not there from the first round to the last do not belong here.
        minimum: the run ends when fewer than this many can pay for the next release.
        rates: chance of being selected, for each planned round; coins are independent.
        costs: what each planned round costs a participant, additively (1/z² of plain Gaussians, a filter's cost).
        capacity: the largest that `left` can be (default: its maximum); it sets the grid.

    Formal guarantees: whoever is left out along the way spends less than the sum of all its coins' costs, so client j
    cannot pay for round t with probability at most p_jt = P(Σ_{s<t} coin_s·cost_s + cost_t > left_j); costs are
    rounded up, so this is computed exactly from above. The run's end can depend on one client's coins only if in some
    round at most `minimum` − 1 of the *others* can pay, that is at least n − `minimum` of them cannot. That count is a
    sum of independent indicators; if its mean m is at most n − `minimum` − 1, a binomial with the same mean has the
    larger tail (Hoeffding 1956, Theorem 4). Rounds are added up. It is the same in both worlds: it can be added to δ.

    Edge cases: 1 (no credit) where the bound says nothing; a cost that is not finite counts as one nobody can pay.

    Reference: Hoeffding (1956), "On the distribution of the number of successes in independent trials".
    """
    if len(rates) != len(costs) or not len(costs) or not len(left) or not 0 <= minimum <= len(left):
        raise AccountingError(
            "an early end needs a rate and a cost for every round, and a minimum up to the population"
        )
    if any(not 0 <= rate <= 1 for rate in rates) or any(cost < 0 or math.isnan(cost) for cost in costs):
        raise AccountingError("an early end needs rates in [0, 1] and costs of at least 0")
    unit = max(capacity or 0.0, float(np.max(left)), 1e-300) / _UNITS
    room = np.floor(np.clip(left / unit, -1, _UNITS) + 1e-9).astype(np.int64)
    rooms, clients = np.unique(room, return_counts=True)
    clients = clients.astype(np.int64)
    spent = np.zeros(_UNITS + 2)  # the last place is "more than anybody has"
    spent[0] = 1.0
    total = 0.0
    for rate, cost in zip(rates, costs, strict=True):
        step = min(_UNITS + 1, math.ceil(cost / unit - 1e-9)) if math.isfinite(cost) else _UNITS + 1
        within = np.concatenate([[0.0], np.cumsum(spent)])  # within[k]: chance to have spent fewer than k steps
        payable = np.maximum(rooms - step + 1, 0)
        total += _tail(np.clip(1 - within[payable], 0.0, 1.0), clients, len(left) - minimum)
        moved = np.zeros_like(spent)
        moved[step:] = spent[: len(spent) - step]
        moved[-1] += spent[len(spent) - step :].sum() if step else 0.0
        spent = (1 - rate) * spent + rate * moved
    return min(1.0, total)


def _tail(unable: FloatArray, clients: IntArray, needed: int) -> float:
    """Returns a bound on the chance that at least `needed` of all clients but the likeliest payer cannot pay."""
    others = clients.astype(np.float64)
    others[int(np.argmin(unable))] -= 1
    count, mean = float(others.sum()), float((others * unable).sum())
    if count < needed:
        return 0.0
    return float(binom.sf(needed - 1, count, mean / count)) if count and mean <= needed - 1 else 1.0

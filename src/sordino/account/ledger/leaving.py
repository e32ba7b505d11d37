"""When leaving clients out could show who took part: the chance that a run's end depends on secret coins.

A client that has used up its own budget is left out, and that costs an outsider's guarantee nothing
(docs/accounting.md, "Leaving clients out"). But a run that *ends* when fewer than `minimum` clients can still pay ends
at a moment that depends on coins. Unless enough others are left, one client's coins can decide it; the chance of that
is added to δ.
"""

from __future__ import annotations

from scipy.stats import binom

from sordino.errors import AccountingError


def chance_of_early_end(population: int, minimum: int, rate: float, rounds: int, cap: int) -> float:
    """Returns a bound on the chance that one client's own coins decide whether the run goes on.

    Args:
        population: clients of the federation.
        minimum: the run ends when fewer than this many can still pay.
        rate: chance of being selected in a round.
        rounds: planned rounds.
        cap: participations after which a client is left out.

    Formal guarantees: with at least `minimum` *other* clients left in the last round, the run goes on in both worlds,
    with the client and without. Others are used up independently, each with probability P(Bin(rounds, rate) ≥ cap), so
    the chance that fewer are left is a binomial tail. It is the same in both worlds and can be added to δ.
    """
    if not (0 < rate <= 1 and population >= 1 and 0 <= minimum <= population and rounds >= 1 and cap >= 1):
        raise AccountingError(
            "an early end needs a rate in (0, 1], at least one round, and a minimum up to the population"
        )
    used_up = binom.sf(cap - 1, rounds, rate)
    return float(binom.sf(population - minimum - 1, population - 1, used_up))

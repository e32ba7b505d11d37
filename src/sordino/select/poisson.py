"""Poisson selection: every eligible client flips its own coin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.events import Charge, DpEvent, Guarantee, PoissonSampledDpEvent, Unbounded
from sordino.terms import Turn
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class Poisson:
    """Each eligible client takes part independently with probability `rate`.

    **Formal guarantees**: against the outsider, who does not learn the cohort, the release is Poisson-subsampled and
    everyone who could have been selected pays for it. The server sees the cohort and gets no amplification: only those
    whose message left them pay, and they pay in full. For the record unit nothing is credited either: a client's other
    records can give its coin away. Nor under other adjacencies than add_remove: there both worlds hold the unit, and
    the bound for coins that decide about its presence does not apply.
    **Edge cases**: a cohort may be empty.
    """

    rate: float

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        ids = np.flatnonzero(eligible)
        generator = turn.randomness.generator("select", turn.round_)
        count = generator.binomial(len(ids), self.rate)
        return np.sort(ids[generator.choice(len(ids), count, replace=False, shuffle=False)])

    def expected(self, population: int) -> float:
        return self.rate * population

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        amplified = guarantee == Guarantee("client", "outsider", "add_remove") and not isinstance(event, Unbounded)
        if not amplified:
            return Charge(guarantee, event, "participants")
        return Charge(guarantee, PoissonSampledDpEvent(self.rate, event), "eligible")

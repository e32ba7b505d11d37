"""Cohorts of a fixed size, and everyone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.events import Charge, DpEvent, Guarantee, SampledWithoutReplacementDpEvent, Unbounded
from sordino.terms import Turn
from sordino.types import Adjacency, BoolArray, IntArray


@dataclass(frozen=True)
class FixedSize:
    """A uniformly random cohort of `size` of the `population` clients, without replacement.

    `blind` draws whether or not clients can still pay: one that cannot, or is not there, is drawn all the same and its
    message says nothing (zero, with its share of noise). So cohorts depend on nobody's budget and on nobody's data, as
    amplification needs it. `population` is declared, the most that there can be: places that nobody holds are drawn
    like all others, so that everybody's chance is the one that is priced. Under local trust there is no amplification,
    and only clients that can pay are drawn.

    **Formal guarantees**: the server knows the cohort: who takes part pays in full. An outsider does not: under
    `zero_out` both worlds draw the same cohorts, the protected client is among them with probability size/population,
    and where it is not somebody else is in its place, who may contribute the opposite. So a round is a sample without
    replacement (Wang, Balle, Kasiviswanathan 2019; `account/accountants/pld.py` has the profile), and everybody pays.
    Under `add_remove` a client that leaves gives its place to another: nothing is promised there, and the outsider's
    promise is `zero_out`. For the record unit nothing is amplified: a client's other records can give its place away.
    **Edge cases**: fewer than `size` where places that nobody holds were drawn; a cohort may be empty.
    """

    size: int
    population: int
    blind: bool = True

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        ids = np.arange(max(self.population, len(eligible))) if self.blind else np.flatnonzero(eligible)
        generator = turn.randomness.generator("select", turn.round_)
        drawn = np.sort(generator.choice(ids, min(self.size, len(ids)), replace=False, shuffle=False))
        return drawn[drawn < len(eligible)]

    def expected(self, population: int) -> float:
        return float(min(self.size, population))

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        if guarantee != Guarantee("client", "outsider", "add_remove"):
            return Charge(guarantee, event, "participants")
        promise = Guarantee("client", "outsider", "zero_out")
        if isinstance(event, Unbounded) or not self.blind:
            return Charge(promise, event, "participants")
        return Charge(promise, SampledWithoutReplacementDpEvent(self.population, self.size, event), "eligible")


@dataclass(frozen=True)
class Everyone:
    """Every eligible client, every round. Nothing is hidden by selection.

    `hides` is what an outsider is promised at most: a release of everybody that goes with rounds of fixed cohorts is
    priced by their relation (`zero_out`, which whatever hides presence hides too), so that all of it adds up.
    """

    hides: Adjacency = "add_remove"

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        return np.flatnonzero(eligible)

    def expected(self, population: int) -> float:
        return float(population)

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        if guarantee == Guarantee("client", "outsider", "add_remove"):
            guarantee = Guarantee("client", "outsider", self.hides)
        return Charge(guarantee, event, "participants")

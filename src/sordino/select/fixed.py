"""Cohorts of a fixed size, and everyone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.events import Charge, DpEvent, Guarantee
from sordino.mechanism import Turn
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class FixedSize:
    """A uniformly random cohort of `size` clients, without replacement (fewer when fewer are eligible).

    **Formal guarantees**: no amplification is credited. Under add/remove a cohort of fixed size changes somebody
    else's place when one client leaves, so the Poisson bound does not apply.
    """

    size: int

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        ids = np.flatnonzero(eligible)
        generator = turn.randomness.generator("select", turn.round_)
        return np.sort(generator.choice(ids, min(self.size, len(ids)), replace=False, shuffle=False))

    def expected(self, population: int) -> float:
        return float(min(self.size, population))

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        return Charge(guarantee, event, "participants")


@dataclass(frozen=True)
class Everyone:
    """Every eligible client, every round. Nothing is hidden by selection."""

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        return np.flatnonzero(eligible)

    def expected(self, population: int) -> float:
        return float(population)

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        return Charge(guarantee, event, "participants")

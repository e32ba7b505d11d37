"""Cohorts that take turns: nobody is asked again before everybody else's group was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.events import Charge, DpEvent, Guarantee
from sordino.terms import Turn
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class Separated:
    """Client i is asked in the rounds t with t ≡ i + 1 modulo `groups`, and in no others.

    **Formal guarantees**: two participations of one client are at least `groups` rounds apart, whatever happens to it
    or to others: the round's number alone decides, so nobody's data, budget or absence moves anybody into another
    round. Nothing is amplified: who knows the rule knows the cohort. Only those whose message left them pay. A client's
    place is counted among those who are there, so one that leaves moves all who come after it into other rounds: its
    presence (`add_remove`) is not hidden, and an outsider is promised what hides its silence (`zero_out`).
    **Edge cases**: with more groups than clients some rounds are empty.
    """

    groups: int

    @property
    def rounds_apart(self) -> int:
        """How many rounds two participations of one client are apart at least."""
        return self.groups

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        ids: IntArray = np.arange(len(eligible))
        return np.flatnonzero(eligible & (ids % self.groups == (turn.round_ - 1) % self.groups))

    def expected(self, population: int) -> float:
        return population / self.groups

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        if guarantee == Guarantee("client", "outsider", "add_remove"):
            guarantee = Guarantee("client", "outsider", "zero_out")
        return Charge(guarantee, event, "participants")

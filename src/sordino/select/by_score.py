"""Clients chosen by a public score: the best ones, or drawn in proportion to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sordino.events import Charge, DpEvent, Guarantee
from sordino.terms import Turn
from sordino.types import BoolArray, IntArray

SelectionRule = Literal["best", "weighted", "uniform"]


@dataclass(frozen=True)
class ByScore:
    """The `size` eligible clients of the highest score, from the public knob `scores`.

    **Formal guarantees**: post-processing of whatever the scores were computed from; nothing is amplified, since who
    knows the scores knows the cohort (and where it is drawn, no chance is counted on). Only those whose message left
    them pay.
    **Edge cases**: ties are broken by a coin of the round; clients that score below `refuse_below` (suspected
    poisoning) are never asked, so a cohort may be smaller than `size`, and empty.
    **Reference**: A-DPFL, Algorithm 2 and Eq. (13)–(14). Instead of taking the first in rank, `weighted` draws `size`
    clients without replacement, each draw in proportion to the scores, and `uniform` draws them all alike, which is
    the DPFL that A-DPFL is compared with.
    """

    size: int
    refuse_below: float = 0.0
    how: SelectionRule = "best"

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        merit = turn.knobs["scores"].numpy()
        ids = np.flatnonzero(eligible & (merit >= self.refuse_below))
        coins = turn.randomness.generator("select", turn.round_).random(len(ids))
        # the first exponential clocks to ring, each at the rate of its score, are draws without replacement
        clocks = -np.log1p(-coins) / np.maximum(merit[ids], 1e-300)
        ranks = {"best": np.lexsort((coins, -merit[ids])), "weighted": np.argsort(clocks), "uniform": np.argsort(coins)}
        return np.sort(ids[ranks[self.how][: self.size]])

    def expected(self, population: int) -> float:
        return float(min(self.size, population))

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        return Charge(guarantee, event, "participants")

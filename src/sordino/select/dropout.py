"""Who vanishes, when, and who joins late: the world's doing, not the mechanism's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sordino.random.streams import Randomness
from sordino.terms import Terms, Vanished
from sordino.types import BoolArray

LostStage = Literal["train", "upload", "unmask"]
"""The last thing that a vanishing client does *not* do: train, send its message, help to unmask."""


@dataclass(frozen=True)
class Dropout:
    """Each client of a cohort vanishes with probability `rate` (or the round's of `schedule`), at one of `stages`.

    A fraction `late` of the population joins only in round `late_round`.
    """

    rate: float = 0.0
    schedule: tuple[float, ...] = ()
    stages: tuple[LostStage, ...] = ("upload",)
    late: float = 0.0
    late_round: int = 1

    def rate_at(self, round_: int) -> float:
        """Returns the dropout probability of a round; a schedule's last entry goes on."""
        return self.schedule[min(round_, len(self.schedule)) - 1] if self.schedule else self.rate

    def draw(self, randomness: Randomness, terms: Terms) -> Vanished:
        """Returns who vanishes this round."""
        rate = self.rate_at(terms.round_)
        if rate == 0:
            return Vanished()
        cohort, generator = terms.cohort, randomness.generator("dropout", terms.round_)
        lost = generator.random(len(cohort)) < rate
        stage = np.asarray(self.stages)[generator.integers(len(self.stages), size=len(cohort))]
        return Vanished(*(cohort[lost & (stage == name)] for name in get_args(LostStage)))

    def joined(self, randomness: Randomness, round_: int, population: int) -> BoolArray:
        """Returns who is there in this round."""
        if self.late == 0 or round_ >= self.late_round:
            return np.ones(population, bool)
        return randomness.generator("late").random(population) >= self.late

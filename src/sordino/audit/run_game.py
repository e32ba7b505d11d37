"""A game about whole runs: play both worlds a few times, learn what tells them apart, and count on fresh plays."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.account.certificate.document import Promise
from sordino.account.certificate.proof import curve_of
from sordino.audit.counts import Counts
from sordino.audit.finding import Finding, bound_of, breaks

GameWatcher = Callable[[int, int], None]
"""Is told how many plays of how many are done."""


@dataclass(frozen=True)
class RunGame:
    """What is played, what is seen of it, and how an attacker reads it.

    Attributes:
        play: returns what the observer sees of one play: of the world (with the unit, or without), from a seed.
        learn: returns a score for what is seen, from pilot plays of both worlds (without, with).
        attack: in words.
        pilot: plays of each world to learn from.
        trials: plays of each world to count.
    """

    play: Callable[[bool, int], Any]
    learn: Callable[[Sequence[Any], Sequence[Any]], Callable[[Any], float]]
    attack: str
    pilot: int = 8
    trials: int = 16

    def decide(
        self, promise: Promise, mechanism: str, rounds: int, seed: int, told: GameWatcher = lambda done, of: None
    ) -> Finding:
        """Plays, and holds what was found against a published promise.

        **Formal guarantees**: those of `whitebox.audit`: score and cut are fixed before the counted plays.
        """
        began = time.perf_counter()
        seen = self._plays(seed, told)
        score = self.learn(*(plays[: self.pilot] for plays in seen))
        pilots, fresh = ([[score(one) for one in plays[part]] for plays in seen] for part in self._parts)
        counts = _counted(fresh, _cut(*pilots))
        telling = (counts, counts.swapped)
        certified, bound = math.inf if promise.epsilon is None else promise.epsilon, bound_of(telling, promise.delta)
        broken = breaks(curve_of(promise.proof), telling)
        return Finding(
            mechanism=mechanism,
            mode="certified",
            unit=promise.unit,
            observer=promise.observer,
            adjacency=promise.adjacency,
            rounds=rounds,
            delta=promise.delta,
            claimed=None,
            certified=promise.epsilon,
            lower_bound=bound,
            gaussian_fit=None,
            curve_broken=broken,
            verdict="violated" if bound > certified or broken else "consistent",
            against="certified",
            test="learned from pilot runs",
            attack=self.attack,
            trials=self.trials,
            seconds=time.perf_counter() - began,
        )

    @property
    def _parts(self) -> tuple[slice, slice]:
        return slice(None, self.pilot), slice(self.pilot, None)

    def _plays(self, seed: int, told: GameWatcher) -> tuple[list[Any], list[Any]]:
        """Plays both worlds in turn, so that the hour of the clock tells nothing."""
        worlds: tuple[list[Any], list[Any]] = ([], [])
        total = 2 * (self.pilot + self.trials)
        for number in range(total):
            told(number, total)
            worlds[number % 2].append(self.play(bool(number % 2), (seed << 20) + number + 1))
        return worlds


def _cut(without: Sequence[float], with_: Sequence[float]) -> float:
    """Returns where to cut so that the pilot's plays are told apart best."""
    scores = np.unique([*without, *with_])
    cuts = [*((scores[1:] + scores[:-1]) / 2), scores[-1]]
    gains = [abs(np.mean(np.array(with_) > cut) - np.mean(np.array(without) > cut)) for cut in cuts]
    return float(cuts[int(np.argmax(gains))])


def _counted(fresh: Sequence[Sequence[float]], cut: float) -> Counts:
    above = [int(np.count_nonzero(np.array(scores) > cut)) for scores in fresh]
    return Counts(above[1], len(fresh[1]), above[0], len(fresh[0]))

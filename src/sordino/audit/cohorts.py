"""The game of cohorts: who takes part is drawn by the mechanism's own selector, in every trial and round.

The plain game (`game.py`) fixes who else takes part, which is the strongest attack where a client's coin decides about
itself alone. Here the attacker profits from what a cohort does as a whole: somebody else stands in the place of the one
who left, nobody comes and the noise is missing, or too few are left and the round is aborted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sordino.audit.attack import Attack, Path
from sordino.audit.crowd import CrowdStreams
from sordino.audit.game import Way
from sordino.audit.inputs import contributions
from sordino.audit.release import Fold, release, release_of_nobody
from sordino.audit.scene import Scene
from sordino.audit.statistic import Views
from sordino.errors import ProtocolError
from sordino.events import Guarantee
from sordino.random.streams import SERVER, Streams
from sordino.terms import Terms, Turn, Vanished
from sordino.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class CohortGame:
    """Plays one attack on an outsider's promise, cohorts and all: what is released, or that nothing is."""

    scene: Scene
    guarantee: Guarantee
    path: Path
    attack: Attack

    @property
    def way(self) -> Way:
        """How trials are played: those with the same cohort side by side."""
        return "fold"

    def views(self, present: bool, trials: int, seed: int) -> Views:
        """Returns the released means of so many trials of one world, and whether each round was aborted."""
        coins, main, aborted = _Coins(Streams(seed).generator("cohorts")), list[FloatArray](), list[FloatArray]()
        for at in range(len(self.path.knobs)):
            drawn = self._drawn(coins, at, present, trials)
            means, stopped = np.zeros((trials, self.scene.width)), np.zeros((trials, 1))
            cohorts, which = np.unique(drawn, axis=0, return_inverse=True)
            for number, cohort in enumerate(cohorts):
                mine = np.flatnonzero(which.ravel() == number)
                # two groups of trials must not share a draw
                streams = CrowdStreams((seed << 20) + (number << 8) + at)
                found = self._released(np.flatnonzero(cohort), at, present, len(mine), streams)
                if found is None:
                    stopped[mine] = 1.0
                else:
                    means[mine] = found
            main.append(means)
            aborted.append(stopped)
        return Views(np.stack(main, axis=1), np.concatenate(aborted, axis=1))

    def _drawn(self, coins: _Coins, at: int, present: bool, trials: int) -> BoolArray:
        """Returns who is asked in each trial; who left cannot be."""
        here = np.ones(self.scene.clients, bool)
        here[0] = present or self.guarantee.adjacency != "add_remove"
        turn = Turn(Terms(at + 1, torch.zeros(self.scene.width), self.path.knobs[at]), coins)  # type: ignore[arg-type]
        drawn = np.zeros((trials, self.scene.clients), bool)
        for trial in range(trials):
            drawn[trial, self.scene.mechanism.selector.select(turn, here)] = True
        return drawn

    def _released(
        self, cohort: IntArray, at: int, present: bool, trials: int, streams: CrowdStreams
    ) -> FloatArray | None:
        """Returns what a cohort's round releases, one row a trial; None when it is aborted."""
        fold, scene = Fold(trials, cohort), self.scene
        crowd = (np.arange(trials)[:, None] * scene.clients + cohort).ravel()
        turn = Turn(Terms(at + 1, torch.zeros(scene.width), self.path.knobs[at], crowd), streams)
        says = {True: self.attack.row * self.attack.pattern[at], False: torch.zeros_like(self.attack.row)}[present]
        rows = [says if client == 0 else self.attack.others for client in cohort]
        gone = np.intersect1d(cohort, self.attack.vanished(scene.clients).silent)
        lost = Vanished(np.empty(0, np.int64), gone, np.empty(0, np.int64))
        mechanism, wide = fold.mechanism(scene.mechanism), fold.turn(turn)
        try:
            if len(gone) == len(cohort):
                mean = release_of_nobody(mechanism, wide, lost).mean
            else:
                bounded = contributions(scene, turn, torch.stack(rows).repeat(trials, 1), np.zeros(len(crowd), bool))
                mean = release(mechanism, wide, fold.bounded(bounded), lost).released.mean
        except ProtocolError:
            return None
        return np.asarray(mean.double().numpy()).reshape(trials, -1)


@dataclass(frozen=True)
class _Coins:
    """Randomness for selectors: every draw is a new one, so that one turn serves all trials."""

    made: np.random.Generator

    def generator(self, purpose: str, round_: int = 0, client: int = SERVER) -> np.random.Generator:
        return self.made

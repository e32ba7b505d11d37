"""The distinguishing game: the mechanism's real release path on two neighbouring inputs, many trials at a time.

Three ways to play, by what is seen. Under local trust each message is private by itself, so the clients of one big
cohort are the trials (a *crowd*). Where only sums are seen, trials lie side by side in one wide release (a *fold*).
What can be vectorised neither way is played *one by one*. The parts are those of a run, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sordino.audit.attack import Attack, Path
from sordino.audit.crowd import CrowdStore, CrowdStreams
from sordino.audit.inputs import contributions, presummed, sums_in_training
from sordino.audit.release import Fold, release
from sordino.audit.scene import Scene, records_of
from sordino.audit.statistic import Views
from sordino.client_state import ClientState
from sordino.events import Guarantee
from sordino.opening.histograms import LabelHistograms
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.laplace import LocalLaplace
from sordino.perturb.quantile import QuantileGaussian
from sordino.random.streams import Randomness, Streams
from sordino.stages import Bounded, Shielded
from sordino.terms import Terms, Turn
from sordino.types import BoolArray, FloatArray, IntArray

Way = Literal["crowd", "fold", "one by one"]

_DERIVED = ("variance", "gap")
"""Side columns that a simulation computes for its own metrics, or from messages alone: nothing that is sent."""


@dataclass(frozen=True)
class Game:
    """Plays one attack on one guarantee, in the world with the unit and in the one without."""

    scene: Scene
    guarantee: Guarantee
    path: Path
    attack: Attack
    _trained: dict[tuple[int, int, bool], Bounded] = field(default_factory=dict, repr=False, compare=False)
    """Sums that training made: they are the same in every trial, since noise comes after them."""

    @property
    def way(self) -> Way:
        """How trials are played."""
        mechanism = self.scene.mechanism
        if self._reads_messages:
            return "fold" if isinstance(mechanism.perturber, LocalLaplace) else "crowd"
        return "one by one" if isinstance(mechanism.perturber, QuantileGaussian) else "fold"

    @property
    def glance(self) -> int:
        """How many trials are cheap enough to compare attacks on."""
        if self.way == "one by one":
            return 150
        return 400 if isinstance(self.scene.mechanism.perturber, IntegerShares) else 2000

    @property
    def _reads_messages(self) -> bool:
        return self.scene.mechanism.trust == "local" and self.guarantee.observer == "server"

    def views(self, present: bool, trials: int, seed: int) -> Views:
        """Returns what the observer sees in so many trials of one world."""
        if self.way != "one by one":
            return self._play(present, trials, seed)
        parts = [self._play(present, 1, seed * 1_000_003 + trial) for trial in range(trials)]
        return Views(np.concatenate([p.main for p in parts]), np.concatenate([p.rest for p in parts]))

    def _play(self, present: bool, trials: int, seed: int) -> Views:
        randomness = Streams(seed) if self.way == "one by one" else CrowdStreams(seed)
        memory, main = CrowdStore(), list[FloatArray]()
        rest = [np.empty((trials, 0)), *self._opening(randomness, present, trials)]
        for at, knobs in enumerate(self.path.knobs):
            turn = Turn(Terms(at + 1, torch.zeros(self.scene.width), knobs), randomness)
            seen = self._round(turn, at, present, trials, memory)
            main.append(seen[0])
            rest += [np.asarray(part).reshape(trials, -1) for part in seen[1:]]
            memory.commit()
        return Views(np.stack(main, axis=1), np.concatenate(rest, axis=1))

    def _opening(self, randomness: Randomness, present: bool, trials: int) -> list[FloatArray]:
        """Returns what was released before the first round: noisy label counts of everybody, one row a trial.

        Exact counts would give everything away by themselves; they are left out, to see what the rounds give away.
        """
        opening = self.scene.mechanism.opening
        if not isinstance(opening, LabelHistograms) or opening.noise_multiplier is None:
            return []
        target = np.arange(trials * 2) % 2 == 0
        data = records_of(np.arange(trials * 2), target & present)
        turn = Turn(Terms(0, torch.zeros(self.scene.width), self.path.knobs[0]), randomness)
        return [_numbers(opening.tell(data, turn)).reshape(trials, -1)]

    def _round(self, turn: Turn, at: int, present: bool, trials: int, memory: CrowdStore) -> list[FloatArray]:
        """Returns what one round shows, one row a trial."""
        picked = self._picked(turn, at, present, trials)
        everybody = np.arange(2 if self._reads_messages else self.scene.clients)
        roles = everybody if picked.any() else everybody[1:]
        crowd = (np.arange(trials)[:, None] * self.scene.clients + roles).ravel()
        turn = turn.but(cohort=crowd)
        fold = Fold(trials, roles) if self.way == "fold" else None
        if sums_in_training(self.scene):
            bounded = self._summed(turn, roles, present and self.attack.pattern[at] != 0, picked)
        else:
            state = None if fold else memory.state(crowd)
            bounded = self._crowd(turn, at, present, roles, picked, state)
            bounded = fold.bounded(bounded) if fold else bounded
        bounded = replace(bounded, state=memory.state(bounded.clients))
        return self._seen(fold.turn(turn) if fold else turn, bounded, trials, fold, memory)

    def _summed(self, turn: Turn, roles: IntArray, loud: bool, picked: BoolArray) -> Bounded:
        """Returns the clipped sums of all trials, side by side: with the target's record, or without."""
        sums = []
        for here in (False, loud):
            name = (turn.round_, len(roles), here)
            if name not in self._trained:
                self._trained[name] = presummed(self.scene, turn, roles, here, self.attack.loudness)
            sums.append(self._trained[name])
        rows = torch.where(torch.from_numpy(picked)[:, None], sums[1].rows, sums[0].rows)
        return replace(sums[int(picked.any())], rows=rows.reshape(1, -1))

    def _picked(self, turn: Turn, at: int, present: bool, trials: int) -> BoolArray:
        """Returns in which trials the target takes part: by a coin if the observer cannot see it fall, else in all."""
        everywhere = np.ones(trials, bool)
        if self.guarantee.unit == "client" and self.guarantee.adjacency == "add_remove" and not present:
            return ~everywhere
        if self.guarantee.observer == "server" or self.path.charges(self.guarantee)[at].payers != "eligible":
            return everywhere
        return np.isin(np.arange(trials), self.scene.mechanism.selector.select(turn, everywhere), assume_unique=True)

    def _crowd(
        self, turn: Turn, at: int, present: bool, roles: IntArray, picked: BoolArray, state: ClientState | None
    ) -> Bounded:
        """Returns everybody's bounded contributions, trial by trial."""
        absent = -1.0 if self.guarantee.adjacency == "replace" else 0.0
        factor = self.attack.pattern[at] * (1.0 if present else absent)
        # a factor of zero means zero, also for rows that are not finite
        chosen = self.attack.row * factor if factor else torch.zeros_like(self.attack.row)
        rows = torch.stack([self.attack.others if role else chosen for role in roles]).repeat(len(picked), 1)
        target = np.tile(roles == 0, len(picked))
        if not picked.all():
            rows[torch.from_numpy(target & ~np.repeat(picked, len(roles)))] = 0.0
        sizes = np.where(target, self.attack.size or self.scene.records, self.scene.records)
        loud = target & (present and self.attack.pattern[at] != 0)
        return contributions(self.scene, turn, rows, loud, sizes, self.attack.loudness, state)

    def _seen(
        self, turn: Turn, bounded: Bounded, trials: int, fold: Fold | None, memory: CrowdStore
    ) -> list[FloatArray]:
        """Returns what the observer sees of a release: the release itself first, then all the rest."""
        mechanism = fold.mechanism(self.scene.mechanism) if fold else self.scene.mechanism
        if self._reads_messages:
            sent = mechanism.perturber.shield(bounded, turn)
            memory.keep(bounded.clients, sent.state)
            return _messages(sent.message, trials, fold is not None)
        seen = release(mechanism, turn, bounded, self.attack.vanished(self.scene.clients))
        memory.keep(bounded.clients, seen.state)
        if self.guarantee.observer == "outsider":
            sides = [_numbers(side) for name, side in seen.released.side.items() if name not in _DERIVED]
            return [_numbers(seen.released.mean).reshape(trials, -1), *sides]
        shown = [_numbers(part.reshape(len(part), trials, -1).transpose(0, 1)) for part in seen.revealed]
        return [_numbers(seen.total).reshape(trials, -1), *shown]


def _messages(message: Shielded, trials: int, folded: bool) -> list[FloatArray]:
    """Returns the target's message of each trial, everybody else's, and the columns that ride along with them."""
    rows: Tensor = message.rows
    shaped = rows.reshape(len(rows), trials, -1).transpose(0, 1) if folded else rows.reshape(trials, -1, rows.shape[1])
    sides = [_numbers(column.reshape(trials, -1)) for name, column in message.side.items() if name not in _DERIVED]
    return [_numbers(shaped[:, 0]), _numbers(shaped[:, 1:]), *sides]


def _numbers(tensor: Tensor) -> FloatArray:
    return np.asarray((tensor if tensor.is_floating_point() else tensor.double()).numpy())

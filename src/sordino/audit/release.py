"""One real release: shield → sum and reveal → release, and everything that an observer sees of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sordino.errors import SordinoError
from sordino.events import Skellam
from sordino.mechanism import Mechanism, Turn, Vanished
from sordino.perturb.integer_shares import IntegerShares, Rounding
from sordino.runs.client_store import ClientStore
from sordino.stages import Bounded, Released, Shielded
from sordino.types import Adjacency, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Seen:
    """What a release shows: the sum, what was revealed on the way, and what was released."""

    total: Tensor
    revealed: tuple[Tensor, ...]
    released: Released


def release(mechanism: Mechanism, turn: Turn, bounded: Bounded, vanished: Vanished) -> Seen:
    """Plays the mechanism's own parts from the bounded contributions on, and notes what is seen."""
    sent = _only(bounded, ~np.isin(bounded.clients, vanished.silent))
    revealed: list[Tensor] = []

    def reveal(part: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        shown = mechanism.perturber.reveal(part, survivors, turn)
        if shown is not None:
            revealed.append(shown[torch.from_numpy(~np.isin(part.clients, vanished.unmask))])
        return shown

    messages = [mechanism.perturber.shield(sent, turn)]
    summed = mechanism.aggregator.sum(messages, turn, vanished, reveal)
    return Seen(summed.total, tuple(revealed), mechanism.perturber.release(summed, turn))


def _only(bounded: Bounded, present: BoolArray) -> Bounded:
    if present.all():
        return bounded
    keep = torch.from_numpy(present)
    return Bounded(
        bounded.clients[present],
        bounded.rows[keep],
        bounded.weights[keep],
        bounded.clipped[keep],
        None if bounded.spread is None else bounded.spread[keep],
    )


@dataclass(frozen=True)
class Fold:
    """Many trials in one wide release: a client's rows of all trials, side by side, are one row.

    **Formal guarantees**: where parts treat all coordinates alike and noise them independently, a stretch of the wide
    release has the law of a release of its own, and stretches are independent. Contributions were bounded before, each
    as it is in reality. `tests/audit` compares folded with unfolded plays.
    """

    trials: int
    roles: IntArray

    def bounded(self, bounded: Bounded) -> Bounded:
        """Folds a crowd, ordered trial by trial, into one wide row a role."""
        if bounded.side:
            raise SordinoError("contributions with side columns cannot be folded: play them one by one")
        return Bounded(
            self.roles,
            self._wide(bounded.rows),
            bounded.weights[: len(self.roles)],
            bounded.clipped.reshape(self.trials, -1).any(dim=0),
            None if bounded.spread is None else self._wide(bounded.spread),
        )

    def turn(self, turn: Turn, store: ClientStore) -> Turn:
        """Returns the turn that goes with wide rows: what is public of each component is repeated for every trial."""
        width = len(turn.weights)
        knobs = {
            name: knob.repeat(self.trials) if knob.shape == (width,) else knob for name, knob in turn.knobs.items()
        }
        weights = turn.weights.repeat(self.trials)
        return replace(turn, weights=weights, knobs=knobs, store=store, cohort=self.roles)

    def mechanism(self, mechanism: Mechanism) -> Mechanism:
        """Returns the mechanism for wide rows: the same, but integers are still rounded trial by trial."""
        perturber = mechanism.perturber
        if not isinstance(perturber, IntegerShares):
            return mechanism
        return replace(mechanism, perturber=replace(perturber, rounding=EachTrial(perturber.rounding, self.trials)))

    def _wide(self, rows: Tensor) -> Tensor:
        return rows.reshape(self.trials, len(self.roles), -1).transpose(0, 1).reshape(len(self.roles), -1)


@dataclass(frozen=True)
class EachTrial:
    """Rounds a wide row stretch by stretch, so that the norm of a rounded row is that of a single trial."""

    inner: Rounding
    trials: int

    @property
    def clip_norm(self) -> float:
        return self.inner.clip_norm

    @property
    def scale(self) -> float:
        return self.inner.scale

    def round_row(self, row: FloatArray, generator: np.random.Generator) -> IntArray:
        return np.concatenate([self.inner.round_row(part, generator) for part in row.reshape(self.trials, -1)])

    def event(self, variance: float, adjacency: Adjacency = "zero_out") -> Skellam:
        return self.inner.event(variance, adjacency)

    def modulus_bits(self, cohort: int, variance: float) -> int:
        return self.inner.modulus_bits(cohort, variance)

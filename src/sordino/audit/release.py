"""One real release: shield → sum and reveal → release, and everything that an observer sees of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sordino.client_state import ClientState
from sordino.errors import SordinoError
from sordino.events import Skellam
from sordino.mechanism import Mechanism, Perturber
from sordino.perturb.integer_shares import IntegerShares, Rounding
from sordino.perturb.scaled import Scaled
from sordino.stages import Bounded, Released, Revealed
from sordino.terms import Survivors, Turn, Vanished, without
from sordino.types import Adjacency, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Seen:
    """What a release shows: the sum, what was revealed on the way, and what was released."""

    total: Tensor
    revealed: tuple[Tensor, ...]
    released: Released
    state: ClientState | None
    """What the clients remember of it."""


def release(mechanism: Mechanism, turn: Turn, bounded: Bounded, vanished: Vanished) -> Seen:
    """Plays the mechanism's own parts from the bounded contributions on, and notes what is seen."""
    perturber, aggregator = mechanism.perturber, mechanism.aggregator
    sent = perturber.shield(_only(bounded, ~np.isin(bounded.clients, vanished.silent)), turn)
    left = without(turn.cohort, vanished.silent)
    survivors = Survivors(turn.round_, aggregator.counted(turn.terms, left))
    partial = aggregator.add(aggregator.start(turn.terms, bounded.sensitivity), sent.message)
    shown = None if sent.kept is None else perturber.reveal(sent.kept, survivors, turn)
    if shown is not None:
        there = ~np.isin(shown.clients, vanished.unmask)
        shown = Revealed(shown.clients[there], shown.rows[there], shown.squared_multipliers[there])
        partial = aggregator.subtract(partial, shown)
    summed = aggregator.finish(partial, vanished)
    return Seen(summed.total, () if shown is None else (shown.rows,), perturber.release(summed, turn), sent.state)


def release_of_nobody(mechanism: Mechanism, turn: Turn, vanished: Vanished) -> Released:
    """Plays the release of a cohort that sends nothing, or in which nobody is, as a server does without a message."""
    aggregator = mechanism.aggregator
    partial = aggregator.start(turn.terms, mechanism.bounder.sensitivity(turn.knobs))
    return mechanism.perturber.release(aggregator.finish(partial, vanished), turn)


def _only(bounded: Bounded, present: BoolArray) -> Bounded:
    if present.all():
        return bounded
    keep = torch.from_numpy(present)
    return Bounded(
        bounded.clients[present],
        bounded.rows[keep],
        bounded.weights[keep],
        bounded.clipped[keep],
        bounded.sensitivity,
        None if bounded.spread is None else bounded.spread[keep],
        state=None if bounded.state is None else ClientState(bounded.state.rows[keep], bounded.state.known[present]),
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
            # a wide row is no longer one contribution of the bounded norm
            None if bounded.sensitivity is None else replace(bounded.sensitivity, rowwise=False),
            None if bounded.spread is None else self._wide(bounded.spread),
        )

    def turn(self, turn: Turn) -> Turn:
        """Returns the turn that goes with wide rows: what is public of each component is repeated for every trial."""
        width = len(turn.weights)
        more = {
            name: knob.repeat(self.trials) if knob.shape == (width,) else knob for name, knob in turn.knobs.more.items()
        }
        return turn.but(weights=turn.weights.repeat(self.trials), knobs=turn.knobs.plus(more), cohort=self.roles)

    def mechanism(self, mechanism: Mechanism) -> Mechanism:
        """Returns the mechanism for wide rows: the same, but integers are still rounded trial by trial."""
        perturber = self._each_trial(mechanism.perturber)
        return mechanism if perturber is mechanism.perturber else replace(mechanism, perturber=perturber)

    def _each_trial(self, perturber: Perturber) -> Perturber:
        if isinstance(perturber, IntegerShares):
            return replace(perturber, rounding=EachTrial(perturber.rounding, self.trials))
        if isinstance(perturber, Scaled) and isinstance(perturber.inner, IntegerShares):
            return replace(perturber, inner=self._each_trial(perturber.inner))
        return perturber

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

    def round_rows(self, rows: FloatArray, draw: Callable[[IntArray, int], FloatArray]) -> IntArray:
        def stretches(places: IntArray, attempt: int) -> FloatArray:
            clients, own = np.unique(places // self.trials, return_inverse=True)
            drawn = draw(clients, attempt).reshape(len(clients), self.trials, -1)
            picked: FloatArray = drawn[own, places % self.trials]
            return picked

        return self.inner.round_rows(rows.reshape(len(rows) * self.trials, -1), stretches).reshape(len(rows), -1)

    def event(self, variance: float, adjacency: Adjacency = "zero_out") -> Skellam:
        return self.inner.event(variance, adjacency)

    def modulus_bits(self, cohort: int, variance: float) -> int:
        return self.inner.modulus_bits(cohort, variance)

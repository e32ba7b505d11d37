"""What the server tells its clients, and one side's view of a round.

A server sends `Terms` and, once it knows who is left, `Survivors`; nothing else goes from server to client. A `Turn` is
what one side works with in a round: the public terms, and randomness of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from sordino.random.streams import Randomness
from sordino.types import BoolArray, IntArray, whole_part


def scalar(value: float) -> Tensor:
    """Returns a tensor that holds one number, in double precision."""
    return torch.tensor(value, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Knobs:
    """Public numbers that steer a round: the bound, the noise relative to it, and what else a mechanism needs.

    `more` holds tensors by name (component scales, selection scores, a schedule's state).
    """

    clip_norm: float
    noise_multiplier: float
    more: Mapping[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.more[name]

    def __contains__(self, name: str) -> bool:
        return name in self.more

    def number(self, name: str) -> float:
        """Returns one of the further knobs as a number."""
        return float(self.more[name])

    def but(self, clip_norm: float | None = None, noise_multiplier: float | None = None, **more: Tensor) -> Knobs:
        """Returns the knobs with some of them changed."""
        return Knobs(
            self.clip_norm if clip_norm is None else clip_norm,
            self.noise_multiplier if noise_multiplier is None else noise_multiplier,
            {**self.more, **more},
        )

    def plus(self, more: Mapping[str, Tensor]) -> Knobs:
        """Returns the knobs with further ones, or with new values of them."""
        return Knobs(self.clip_norm, self.noise_multiplier, {**self.more, **more})

    def scalars(self) -> dict[str, float]:
        """Returns the knobs that are single numbers, by name."""
        singles = {name: float(knob) for name, knob in sorted(self.more.items()) if knob.numel() == 1}
        return {"clip_norm": self.clip_norm, "noise_multiplier": self.noise_multiplier, **singles}

    def tensors(self) -> dict[str, Tensor]:
        """Returns all knobs as tensors, to be written down."""
        return {"clip_norm": scalar(self.clip_norm), "noise_multiplier": scalar(self.noise_multiplier), **self.more}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Knobs:
        """Inverts `tensors`."""
        more = {name: knob for name, knob in tensors.items() if name not in ("clip_norm", "noise_multiplier")}
        return cls(float(tensors["clip_norm"]), float(tensors["noise_multiplier"]), more)


def _nobody() -> IntArray:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Terms:
    """Server → clients: the model to begin with, the knobs, and who was asked."""

    round_: int
    weights: Tensor
    knobs: Knobs
    cohort: IntArray = field(default_factory=_nobody)
    """Who was asked this round, in increasing order (the server knows; an outsider never sees it)."""


@dataclass(frozen=True, eq=False)
class Survivors:
    """Server → clients: whose messages arrived, once no more are waited for."""

    round_: int
    clients: IntArray


@dataclass(frozen=True, eq=False)
class Turn:
    """One side's view of a round: the public terms, and randomness that only this side has."""

    terms: Terms
    randomness: Randomness
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    """What the server keeps to itself between rounds, by name (empty on a client's side)."""

    @property
    def round_(self) -> int:
        """The round's number; the first is 1."""
        return self.terms.round_

    @property
    def weights(self) -> Tensor:
        """The global model that the round begins with."""
        return self.terms.weights

    @property
    def knobs(self) -> Knobs:
        """The public numbers that steer the round."""
        return self.terms.knobs

    @property
    def cohort(self) -> IntArray:
        """Who was asked."""
        return self.terms.cohort

    def but(self, **changes: object) -> Turn:
        """Returns the turn with some of its terms changed."""
        return Turn(replace(self.terms, **changes), self.randomness, self.memory)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Vanished:
    """The clients of one cohort that were lost, by the first thing that each did not do."""

    train: IntArray = field(default_factory=_nobody)
    upload: IntArray = field(default_factory=_nobody)
    unmask: IntArray = field(default_factory=_nobody)

    @property
    def silent(self) -> IntArray:
        """Those whose message never left them: they are not counted, and pay nothing."""
        return np.union1d(self.train, self.upload) if len(self.train) else self.upload


def without(clients: IntArray, others: IntArray) -> IntArray:
    """Returns those of the clients who are not among the others, in their order; nobody is named twice."""
    return np.setdiff1d(clients, others, assume_unique=True) if len(others) else clients


HONEST_NOISE = "honest noise of each shard"
"""The side column of a sharded sum: squared multipliers of the noise that does not come from colluders."""


@dataclass(frozen=True, eq=False)
class CohortShard:
    """One part of a cohort that is summed by itself: its own terms, and how bad it may be."""

    terms: Terms
    corrupt: float
    """Share of it that may work with the server: all who may, in case they are all here."""
    summed: bool
    """Whether it is large enough to be summed; whoever is in a smaller one sends in vain."""

    def of(self, clients: IntArray) -> BoolArray:
        """Returns which of these clients are in it."""
        return np.isin(clients, self.terms.cohort)


@dataclass(frozen=True)
class Sharding:
    """How a cohort is dealt out to shards, by a public rule that every client can follow.

    **Formal guarantees**: a client's shard follows from its id and the round alone. So one client more or less changes
    one shard and no other, and leaves everybody else where they are: what is true of one sum is true of all shards'
    sums together (they concern disjoint clients).
    **Edge cases**: shards differ in size; one of fewer than `least` clients, or in which too few could answer if all
    who are corrupt sat there, is not summed.
    """

    count: int
    tolerance: float
    corrupt: float
    least: int = 5

    def deal(self, clients: IntArray, round_: int) -> IntArray:
        """Returns every client's shard: SplitMix64 of its id and the round."""
        mixed = np.asarray(clients).astype(np.uint64) * np.uint64(0xD1342543DE82EF95) + np.uint64(round_)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(self.count)).astype(np.int64)

    def shards(self, terms: Terms) -> list[CohortShard]:
        """Returns the shards of a cohort."""
        dealt, bad = self.deal(terms.cohort, terms.round_), whole_part(self.corrupt, len(terms.cohort))
        found = []
        for number in range(self.count):
            cohort = terms.cohort[dealt == number]
            size, gone = len(cohort), whole_part(self.tolerance, len(cohort))
            summed = size >= self.least and (size + bad) // 2 < size - gone
            found.append(CohortShard(replace(terms, cohort=cohort), bad / size if summed else 0.0, summed))
        return found

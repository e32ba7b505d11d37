"""The plain sum of messages: what a server does that receives them in clear, and the stand-in for a secure sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from sordino.errors import ProtocolError
from sordino.stages import Revealed, Sensitivity, Shielded, Summed
from sordino.terms import Terms, Vanished
from sordino.types import IntArray


@dataclass(frozen=True, eq=False)
class StatedNoise:
    """How much noise the messages of a sum say they carry, in squared multiples of the bound."""

    total: float = 0.0
    least: float = math.inf
    """Of the single message that carries the least."""

    def plus(self, message: Shielded, sensitivity: Sensitivity | None) -> StatedNoise:
        """Returns the noise with a message's added.

        Raises:
            ProtocolError: the message was bounded by something else than the round's terms ask for.
        """
        stated = message.sensitivity
        if sensitivity is not None and stated is not None and stated.norm > sensitivity.norm * (1 + 1e-9):
            raise ProtocolError(
                f"a message was bounded by {stated.norm:g} and the round's bound is {sensitivity.norm:g}: refuse it"
            )
        squares = message.squared_multipliers
        least = float(squares.min()) if len(squares) else math.inf
        return StatedNoise(self.total + float(squares.sum()), min(self.least, least))

    def minus(self, revealed: Revealed) -> StatedNoise:
        """Returns the noise without what was revealed."""
        return StatedNoise(self.total - float(revealed.squared_multipliers.sum()), self.least)


NO_NOISE = StatedNoise()


@dataclass(frozen=True, eq=False)
class PartialSum:
    """A plain sum under way."""

    cohort: int
    total: Tensor
    sensitivity: Sensitivity | None
    clients: tuple[IntArray, ...] = ()
    weight: float = 0.0
    noise: StatedNoise = NO_NOISE
    side: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class PlainSum:
    """Sums the survivors' rows in double precision, to be divided by a public constant (`denominator`).

    **Formal guarantees**: none of its own. With `denominator=None` it divides by the survivors' total weight, which is
    private under add/remove: only for mechanisms that claim nothing, or print it so.
    **Edge cases**: more vanished clients than `tolerance` allows abort the round: nothing is released.
    """

    denominator: float | None
    tolerance: float | None = None
    """Share of the cohort that may vanish before the round is aborted (None: any)."""
    least: int = 0
    """Fewest messages that a sum must hold; with fewer the round is aborted."""

    def start(self, terms: Terms, sensitivity: Sensitivity | None) -> PartialSum:
        total = torch.zeros_like(terms.weights, dtype=torch.float64)
        return PartialSum(len(terms.cohort), total, sensitivity)

    def counted(self, terms: Terms, survivors: IntArray) -> IntArray:
        return survivors

    def add(self, partial: PartialSum, message: Shielded) -> PartialSum:
        # in double precision: single has no halves beyond 2^23, and one record would move a count by a whole
        columns = ((name, column.sum(0, dtype=torch.float64)) for name, column in message.side.items())
        side = {name: partial.side.get(name, 0) + total for name, total in columns}
        return replace(
            partial,
            total=partial.total + _added(message.rows),
            clients=(*partial.clients, message.clients),
            weight=partial.weight + float(message.weights.sum()),
            noise=partial.noise.plus(message, partial.sensitivity),
            side=side,
        )

    def subtract(self, partial: PartialSum, revealed: Revealed) -> PartialSum:
        total = partial.total - _added(revealed.rows)
        return replace(partial, total=total, noise=partial.noise.minus(revealed))

    def finish(self, partial: PartialSum, vanished: Vanished) -> Summed:
        survivors = np.concatenate([np.empty(0, np.int64), *partial.clients])
        require(len(survivors), partial.cohort, self.tolerance, self.least)
        return Summed(
            partial.total,
            survivors,
            self.denominator if self.denominator is not None else max(partial.weight, 1e-12),
            partial.noise.total,
            partial.noise.least,
            partial.sensitivity,
            partial.side,
        )


def _added(rows: Tensor) -> Tensor:
    """Returns the sum of rows in double precision; one row is its own."""
    return rows[0].double() if len(rows) == 1 else rows.sum(0, dtype=torch.float64)


def require(survivors: int, cohort: int, tolerance: float | None, fewest: int = 0) -> None:
    """Aborts a round with fewer survivors than its noise was counted on; an empty cohort of shares lacks nobody."""
    least = 0 if tolerance is None or not cohort else max(1, math.ceil(round(cohort * (1 - tolerance), 9)))
    least = max(least, fewest)
    if survivors < least:
        raise ProtocolError(
            f"{survivors} of {cohort} clients survived the round and {least} are needed: "
            "raise aggregate.tolerance, or ask more clients"
        )

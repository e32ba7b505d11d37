"""No noise at all: what FedAvg does, said in its price."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sordino.events import Guarantee, Unbounded
from sordino.mechanism import Prices, Turn
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import IntArray, Unit


@dataclass(frozen=True)
class NoNoise:
    """Adds nothing and hides nothing."""

    unit: Unit = "client"

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        return Shielded(bounded.clients, bounded.rows, bounded.weights)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        return Released(summed.total / summed.weight, stddev=0.0)

    def price(self, turn: Turn) -> Prices:
        event = Unbounded("no noise is added")
        return (
            (Guarantee(self.unit, "server", "zero_out"), event),
            (Guarantee(self.unit, "outsider", "add_remove"), event),
        )

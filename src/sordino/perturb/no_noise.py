"""No noise at all: what FedAvg does, said in its price."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.events import Guarantee, Unbounded
from sordino.mechanism import Perturber
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.types import Unit


@dataclass(frozen=True)
class NoNoise(Perturber):
    """Adds nothing and hides nothing."""

    unit: Unit = "client"

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return None

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        event = Unbounded("no noise is added")
        return (
            (Guarantee(self.unit, "server", "zero_out"), event),
            (Guarantee(self.unit, "outsider", "add_remove"), event),
        )

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        return Sent(bounded.shielded(bounded.rows))

    def release(self, summed: Summed, turn: Turn) -> Released:
        return Released(summed.mean(turn.weights.dtype), 0.0, self.price(turn.knobs))

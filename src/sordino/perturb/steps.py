"""Messages whose noise went in at every local step (local DP-SGD), and a noisy count of right answers beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from sordino.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    Guarantee,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    Unbounded,
)
from sordino.mechanism import Prices, Turn
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import IntArray

RIGHT = "right"
"""The column of counts: how many of its own records each client finds the broadcast model right about."""


@dataclass(frozen=True)
class Count:
    """In every `every`-th round each client also sends its count of right answers plus N(0, noise_multiplier²)."""

    noise_multiplier: float
    every: int
    records: float
    """Public mean number of a client's records: it turns the summed counts of the survivors into a share."""

    def due(self, round_: int) -> bool:
        """Returns whether this round counts."""
        return round_ % self.every == 0


@dataclass(frozen=True)
class StepNoise:
    """Prices local steps over secret Poisson batches, each noised where it was made; adds only the count's noise.

    **Formal guarantees**: unit record, trust local, add_remove. Given the broadcast model, a local step is a
    Poisson-sampled Gaussian of the knob `noise_multiplier`, and depends on earlier steps through their noisy results
    alone: the message is a function of `steps` adaptively composed ones. One record changes a count by at most 1. Which
    clients take part does not depend on the record, so server and outsider pay the same.
    **Edge cases**: with `count=None` nothing rides along; with `unproved` set (faithful) the price is that reason.
    """

    sampling_rate: float
    steps: int
    step_stddev: float
    """What one step adds to the weights per unit of noise_multiplier · clip_norm: learning rate over batch."""
    count: Count | None = None
    unproved: str | None = None

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        side = dict[str, Tensor]()
        if self.count is not None and self.count.due(turn.round_):
            noise = turn.randomness.normals("count", turn.round_, bounded.clients, 1)
            side[RIGHT] = bounded.side[RIGHT] + noise.mul_(self.count.noise_multiplier)
        return Shielded(bounded.clients, bounded.rows, bounded.weights, side)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        each = turn.knob("noise_multiplier") * turn.knob("clip_norm") * self.step_stddev * math.sqrt(self.steps)
        stddev = each * math.sqrt(len(summed.survivors)) / summed.weight
        records = self.count.records * len(summed.survivors) if self.count is not None else 1.0
        side = {name: total / max(1.0, records) for name, total in summed.side.items()}
        return Released(summed.total / summed.weight, stddev, side)

    def price(self, turn: Turn) -> Prices:
        if self.unproved is not None:
            return record_local(Unbounded(self.unproved))
        event = step_event(turn.knob("noise_multiplier"), self.sampling_rate, self.steps)
        if self.count is not None and self.count.due(turn.round_):
            event = ComposedDpEvent((event, GaussianDpEvent(self.count.noise_multiplier)))
        return record_local(event)


def step_event(noise_multiplier: float, sampling_rate: float, steps: int) -> DpEvent:
    """Returns what `steps` local steps do."""
    gaussian = GaussianDpEvent(noise_multiplier)
    step = gaussian if sampling_rate >= 1 else PoissonSampledDpEvent(sampling_rate, gaussian)
    return SelfComposedDpEvent(step, steps)


def record_local(event: DpEvent) -> Prices:
    """Returns the same price for server and outsider: each message is private by itself."""
    return (
        (Guarantee("record", "server", "add_remove"), event),
        (Guarantee("record", "outsider", "add_remove"), event),
    )

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
    SelfComposedDpEvent,
    Unbounded,
)
from sordino.mechanism import ON_GRID, Perturber, SideBounds, needs
from sordino.perturb.price import realised, sampled
from sordino.random.on_grid import noisy_counts
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn

RIGHT = "right"
"""The column of counts: how many of its own records each client finds the broadcast model right about."""


@dataclass(frozen=True)
class AnswerCount:
    """In every `every`-th round each client also sends its count of right answers plus N(0, noise_multiplier²)."""

    noise_multiplier: float
    every: int
    records: float
    """Public mean number of a client's records: it turns the summed counts of the survivors into a share."""

    def due(self, round_: int) -> bool:
        """Returns whether this round counts."""
        return round_ % self.every == 0


@dataclass(frozen=True)
class StepNoise(Perturber):
    """Prices local steps over secret Poisson batches, each noised where it was made; adds only the count's noise.

    **Formal guarantees**: unit record, trust local, add_remove. Given the broadcast model, a local step is a
    Poisson-sampled Gaussian of the knob `noise_multiplier`, and depends on earlier steps through their noisy results
    alone: the message is a function of `steps` adaptively composed ones. One record changes a count by at most 1, and
    counts are noised in integers (`random/on_grid.py`). Which clients take part does not depend on the record, so
    server and outsider pay the same.
    **Edge cases**: with `count=None` nothing rides along; with `unproved` set (faithful) the price is that reason.
    """

    sampling_rate: float
    steps: int
    step_stddev: float
    """What one step adds to the weights per unit of noise_multiplier · clip_norm: learning rate over batch."""
    count: AnswerCount | None = None
    unproved: str | None = None

    @property
    def arithmetic(self) -> str:
        return ON_GRID

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return None if self.unproved is not None else needs(2, bound, "noise on every local step")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        if self.unproved is not None:
            return record_local(Unbounded(self.unproved))
        event = step_event(knobs.noise_multiplier, self.sampling_rate, self.steps)
        if self.count is not None and self.count.due(round_):
            event = ComposedDpEvent((event, GaussianDpEvent(self.count.noise_multiplier)))
        return record_local(event)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        side = dict[str, Tensor]()
        if self.count is not None and self.count.due(turn.round_):
            keys = turn.randomness.keys("count", turn.round_, bounded.clients)
            noisy = noisy_counts(bounded.side[RIGHT], self.count.noise_multiplier, keys)
            side[RIGHT] = noisy.to(bounded.side[RIGHT].dtype)
        return Sent(bounded.shielded(bounded.rows, (bounded.noise_multiplier or 0.0) ** 2, side))

    def beside(self, knobs: Knobs, width: int, records: int) -> SideBounds:
        noise = 0.0 if self.count is None else 100 * self.count.noise_multiplier
        return {RIGHT: ((-noise, records + noise),)}

    def release(self, summed: Summed, turn: Turn) -> Released:
        each = turn.knobs.noise_multiplier * turn.knobs.clip_norm * self.step_stddev * math.sqrt(self.steps)
        stddev = each * math.sqrt(len(summed.survivors)) / summed.weight
        records = self.count.records * len(summed.survivors) if self.count is not None else 1.0
        side = {name: total / max(1.0, records) for name, total in summed.side.items()}
        paid = realised(self, turn, summed.least_squared_multiplier)
        return Released(summed.mean(turn.weights.dtype), stddev, paid, side)


def step_event(noise_multiplier: float, sampling_rate: float, steps: int) -> DpEvent:
    """Returns what `steps` local steps do."""
    return SelfComposedDpEvent(sampled(GaussianDpEvent(noise_multiplier), sampling_rate), steps)


def record_local(event: DpEvent) -> Prices:
    """Returns the same price for server and outsider: each message is private by itself."""
    return (
        (Guarantee("record", "server", "add_remove"), event),
        (Guarantee("record", "outsider", "add_remove"), event),
    )

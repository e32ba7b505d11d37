"""Gaussian noise inside a weighted average: each client's noise carries the client's weight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.events import DpEvent, GaussianDpEvent, Unbounded
from sordino.mechanism import Prices, Turn
from sordino.perturb.price import prices
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import Adjacency, IntArray


@dataclass(frozen=True)
class WeightedGaussian:
    """Sends weight · (row + noise), with noise of `Bounded.spread`, or else of noise_multiplier · clip_norm.

    **Formal guarantees**: unit client, trust local. Where `proves_nothing` says why (noise scales that depend on
    private data), the price is `Unbounded`. Otherwise what a client has to say has norm ≤ clip_norm, weights are
    public, and a participation costs one Gaussian of noise_multiplier (`zero_out`), or of half of it (`replace`).
    **Edge cases**: the released noise level is the root mean square over components; an empty cohort releases zeros.
    """

    proves_nothing: str | None = None
    adjacency: Adjacency = "zero_out"

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        level, weights = self._level(bounded, turn), bounded.weights[:, None]
        variance = level.double().square().mean(dim=1, keepdim=True) * weights.double().square()
        rows = bounded.rows + noise.mul_(level).mul_(weights)
        return Shielded(bounded.clients, rows, bounded.weights, side={"variance": variance})

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        variance = float(summed.side["variance"]) if len(summed.survivors) else 0.0
        return Released(summed.total / summed.weight, math.sqrt(variance) / summed.weight)

    def price(self, turn: Turn) -> Prices:
        def event(z: float) -> DpEvent:
            return GaussianDpEvent(z) if self.proves_nothing is None else Unbounded(self.proves_nothing)

        return prices("client", "local", self.adjacency, turn.knob("noise_multiplier"), event)

    def _level(self, bounded: Bounded, turn: Turn) -> Tensor:
        """Returns the standard deviation of each entry's noise, before weights (one column where all are alike)."""
        if bounded.spread is not None:
            return bounded.spread
        return torch.full((len(bounded.rows), 1), turn.knob("noise_multiplier") * turn.knob("clip_norm"))

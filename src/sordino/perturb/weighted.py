"""Gaussian noise inside a weighted average: each client's noise carries the client's weight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.events import DpEvent, GaussianDpEvent, Unbounded
from sordino.mechanism import Perturber, needs
from sordino.perturb.price import prices, realised
from sordino.random.on_grid import noisy_rows, noisy_sums
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.types import Adjacency


@dataclass(frozen=True)
class WeightedGaussian(Perturber):
    """Sends weight · (row + noise), with noise of `Bounded.spread`, or else of noise_multiplier · norm of the bound.

    **Formal guarantees**: unit client, trust local. Where `proves_nothing` says why (noise scales that depend on
    private data), the price is `Unbounded`. Otherwise what a client has to say has a bounded norm, weights are
    public, and a participation costs one Gaussian of noise_multiplier (`zero_out`), or of half of it (`replace`); what
    it has to say is rounded and noised on a grid (`random/on_grid.py`), and multiplied by its weight afterwards.
    **Edge cases**: the released noise level is the root mean square over components; an empty cohort releases zeros.
    """

    proves_nothing: str | None = None
    adjacency: Adjacency = "zero_out"

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return None if self.proves_nothing is not None else needs(2, bound, "Gaussian noise")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return prices("client", "local", self.adjacency, knobs.noise_multiplier, self._event)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        level, weights = self._level(bounded, turn), bounded.weights[:, None]
        variance = level.double().square().mean(dim=1, keepdim=True) * weights.double().square()
        if bounded.spread is not None or self.proves_nothing is not None:
            noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
            rows = bounded.rows + noise.mul_(level).mul_(weights)
        else:
            keys, said = turn.randomness.keys("shield", turn.round_, bounded.clients), bounded.rows / weights
            noisy = noisy_rows if bounded.stated.rowwise else noisy_sums
            rows = noisy(said, bounded.norm, turn.knobs.noise_multiplier, keys).mul_(weights)
        return Sent(bounded.shielded(rows, turn.knobs.noise_multiplier**2, {"variance": variance}))

    def release(self, summed: Summed, turn: Turn) -> Released:
        stddev = 0.0 if summed.empty else math.sqrt(float(summed.side["variance"])) / summed.weight
        return Released(summed.mean(turn.weights.dtype), stddev, realised(self, turn, summed.least_squared_multiplier))

    def _event(self, noise_multiplier: float) -> DpEvent:
        return GaussianDpEvent(noise_multiplier) if self.proves_nothing is None else Unbounded(self.proves_nothing)

    def _level(self, bounded: Bounded, turn: Turn) -> Tensor:
        """Returns the standard deviation of each entry's noise, before weights (one column where all are alike)."""
        if bounded.spread is not None:
            return bounded.spread
        return torch.full((len(bounded.rows), 1), turn.knobs.noise_multiplier * bounded.norm)

"""Central Gaussian noise on the sum of updates and on the count of clients that were not clipped."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.events import GaussianDpEvent
from sordino.mechanism import Prices, Turn
from sordino.perturb.gaussian import SERVER_ID
from sordino.perturb.price import prices
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import IntArray


@dataclass(frozen=True)
class QuantileGaussian:
    """Releases (Σ u, Σ (b − ½)), b = "not clipped", with noise z_Δ·clip_norm on the first and σ_b on the second.

    **Formal guarantees**: unit client, trust central, zero_out / add_remove. One client moves the pair by
    (clip_norm, ½), so with z_Δ = (z⁻² − (2σ_b)⁻²)^(−½) the joint release is one Gaussian of multiplier z =
    `noise_multiplier`: the quantile's cost is inside the price. Noise uses the clip norm that was applied this round,
    not the next one.
    **Edge cases**: 2σ_b must exceed z; a row that was not finite counts as clipped.
    **Reference**: Andrew, Thakkar, McMahan, Ramaswamy (2021), Algorithm 1 and Theorem 1.
    """

    bit_stddev: float

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        bits = 0.5 - bounded.clipped.to(torch.float32).unsqueeze(1)
        return Shielded(bounded.clients, bounded.rows, bounded.weights, side={"unclipped": bits})

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        multiplier = (turn.knob("noise_multiplier") ** -2 - (2 * self.bit_stddev) ** -2) ** -0.5
        stddev = multiplier * turn.knob("clip_norm")
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(summed.total) + 1)[0]
        mean = (summed.total + noise[:-1] * stddev) / summed.weight
        share = (summed.side["unclipped"] + noise[-1:] * self.bit_stddev) / summed.weight + 0.5
        return Released(mean, stddev / summed.weight, side={"unclipped": share})

    def price(self, turn: Turn) -> Prices:
        return prices("client", "central", "zero_out", turn.knob("noise_multiplier"), GaussianDpEvent)

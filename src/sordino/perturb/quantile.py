"""Central Gaussian noise on a sum, and on the count of contributions in it that were not clipped."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sordino.events import DpEvent, GaussianDpEvent
from sordino.mechanism import ON_GRID, Perturber, SideBounds, needs
from sordino.perturb.gaussian import SERVER_ID, require_covered
from sordino.perturb.price import prices, realised, sampled
from sordino.random.on_grid import noisy_counts, noisy_sums
from sordino.stages import UNCLIPPED, Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.types import Adjacency, Unit


@dataclass(frozen=True)
class QuantileGaussian(Perturber):
    """Releases (Σ u, Σ (b − ½)), b = "not clipped", with noise z_Δ·norm on the first and σ_b on the second.

    **Formal guarantees**: trust central; unit client (zero_out, add_remove) or record (add_remove). One client, or one
    record of a client whose row sums over clipped records and whose side column over their halves, moves the pair by
    (norm, ½), as one without records adds to neither. So with z_Δ = (z⁻² − (2σ_b)⁻²)^(−½) the joint release is one
    Gaussian of multiplier z = `noise_multiplier`: the quantile's cost is inside the price. Records may be drawn by
    secret coins of rate `sampling_rate`, the same for both parts, which amplifies. Both parts are released on grids,
    the sum with noise for its rounded bound, and the halves of the count as they are (`random/on_grid.py`): rounding
    both noises is post-processing of the joint Gaussian on what was rounded before. Noise uses the clip norm that was
    applied this round, not the next one.
    **Edge cases**: 2σ_b must exceed z; an empty cohort releases noise alone; a row that was not finite counts as
    clipped.
    **Reference**: Andrew, Thakkar, McMahan, Ramaswamy (2021), Algorithm 1 and Theorem 1.
    """

    bit_stddev: float
    unit: Unit = "client"
    sampling_rate: float = 1.0
    """Probability that a record is in a round's batch (record unit)."""

    @property
    def arithmetic(self) -> str:
        return ON_GRID

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(2, bound, "Gaussian noise")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        adjacency: Adjacency = "zero_out" if self.unit == "client" else "add_remove"
        return prices(self.unit, "central", adjacency, knobs.noise_multiplier, self._event)

    def _event(self, noise_multiplier: float) -> DpEvent:
        return sampled(GaussianDpEvent(noise_multiplier), self.sampling_rate)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        own = bounded.side.get(UNCLIPPED, 0.5 - bounded.clipped.to(torch.float32).unsqueeze(1))
        return Sent(bounded.shielded(bounded.rows, side={UNCLIPPED: own}))

    def beside(self, knobs: Knobs, width: int, records: int) -> SideBounds:
        half = 0.5 if self.unit == "client" else records / 2
        return {UNCLIPPED: ((-half, half),)}

    def release(self, summed: Summed, turn: Turn) -> Released:
        require_covered(summed)
        multiplier = (turn.knobs.noise_multiplier**-2 - (2 * self.bit_stddev) ** -2) ** -0.5
        keys, bit_keys = (turn.randomness.keys(p, turn.round_, SERVER_ID) for p in ("release", "release bit"))
        noisy = noisy_sums(summed.total[None], summed.norm, multiplier, keys)[0]
        mean = (noisy / summed.weight).to(turn.weights.dtype)
        count = summed.side.get(UNCLIPPED, torch.zeros(1))
        share = noisy_counts(count[None], self.bit_stddev, bit_keys)[0].float() / summed.weight + 0.5
        joint, stddev = 1 / (multiplier**-2 + (2 * self.bit_stddev) ** -2), multiplier * summed.norm
        return Released(mean, stddev / summed.weight, realised(self, turn, joint), side={UNCLIPPED: share})

"""Gaussian noise that is correlated over rounds by a banded matrix, added by a trusted server (banded)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.events import CorrelatedGaussian
from sordino.mechanism import ON_GRID, Perturber, needs
from sordino.perturb.gaussian import SERVER_ID, require_covered
from sordino.perturb.price import prices, realised
from sordino.random.on_grid import noisy_sums
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.types import Adjacency

SUMS, MESSAGES = "banded_sums", "banded_messages"
"""What the server remembers: its last b − 1 true sums, and what it released of them, the newest first."""
_ROUNDING = 1e-5
"""More than what rounding to the grid adds to one unit's contribution in one round, over the norm of the bound."""


@dataclass(frozen=True)
class BandedNoise(Perturber):
    """Releases X + C⁻¹Z: the sums of all rounds, with noise that a later round partly takes back.

    Round t makes v_t = Σ_j c_j·x_{t−j} + z_t from the true sums x of this round and the b − 1 before it, with fresh
    z_t ~ N(0, (noise_multiplier · norm)²), and releases y_t = (v_t − Σ_{j≥1} c_j·y_{t−j})/c_0 over the public
    denominator.

    **Formal guarantees**: trust central; holds for units whose participations are at least b = len(bands) rounds apart
    (`select/separated.py` sees to that; `Mechanism` refuses a selector that keeps them closer). Then a unit
    moves (v_1, v_2, …) by at most norm·√k for k participations, since Σ c_j² = 1
    (`account/accountants/banded.py` has the proof), and all that is released is a function of the v's: one
    participation costs one Gaussian of the multiplier. v_t is rounded to a grid and noised in integers; one unit is in
    b consecutive v's, each of which rounding moves by at most 10⁻⁵ of the norm more, √b·10⁻⁵ together, and noise is
    scaled by that. The server sees everything, and its price says so.
    **Edge cases**: one band is `CentralGaussian`. Round 1 has no past. A round that was aborted left no sum, and counts
    as one without contributions: its place in the memory is kept, with y = 0 and x = 0, which is a function of public
    facts. A server that lost its memory must not go on.
    **Reference**: Choquette-Choo et al. (2023), "(Amplified) Banded Matrix Factorization".
    """

    bands: tuple[float, ...]
    adjacency: Adjacency = "zero_out"

    @property
    def rounds_apart(self) -> int:
        """How many rounds two participations of one unit must be apart at least."""
        return len(self.bands)

    @property
    def arithmetic(self) -> str:
        return ON_GRID

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(2, bound, "Gaussian noise")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return prices("client", "central", self.adjacency, knobs.noise_multiplier, CorrelatedGaussian)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        return Sent(bounded.shielded(bounded.rows))

    def release(self, summed: Summed, turn: Turn) -> Released:
        require_covered(summed)
        multiplier, bands = turn.knobs.noise_multiplier, self.bands
        past, told = self._recalled(turn, SUMS), self._recalled(turn, MESSAGES)
        mixed = bands[0] * summed.total.double() + _weighted(bands, past)
        norm = summed.norm * (1 + _ROUNDING * math.sqrt(len(bands)))
        noisy = noisy_sums(mixed[None], norm, multiplier, turn.randomness.keys("release", turn.round_, SERVER_ID))[0]
        message = (noisy - _weighted(bands, told)) / bands[0]
        memory = self._remembered(turn, summed.total.double(), message, past, told)
        stddev = multiplier * summed.norm * self._spread(turn.round_) / summed.weight
        mean = (message / summed.weight).to(turn.weights.dtype)
        return Released(mean, stddev, realised(self, turn, multiplier**2), memory=memory)

    def _spread(self, round_: int) -> float:
        """Returns the standard deviation of (C⁻¹Z)_t for Z of variance 1."""
        inverse = [1 / self.bands[0]]
        for t in range(1, round_):
            reach = min(t, len(self.bands) - 1)
            inverse.append(-sum(self.bands[j] * inverse[t - j] for j in range(1, reach + 1)) / self.bands[0])
        return math.sqrt(math.fsum(part * part for part in inverse))

    def _recalled(self, turn: Turn, name: str) -> Tensor:
        """Returns the last b − 1 rounds of what is remembered, newest first; rounds without a release are zero."""
        kept, width = len(self.bands) - 1, len(turn.weights)
        rows = turn.memory.get(name)
        if rows is None:
            return torch.zeros(kept, width, dtype=torch.float64)
        missed = turn.round_ - 1 - int(turn.memory["banded_round"])
        return torch.cat([torch.zeros(min(missed, kept), width, dtype=torch.float64), rows])[:kept]

    def _remembered(self, turn: Turn, total: Tensor, message: Tensor, past: Tensor, told: Tensor) -> dict[str, Tensor]:
        kept = len(self.bands) - 1
        return {
            SUMS: torch.cat([total[None], past])[:kept],
            MESSAGES: torch.cat([message[None], told])[:kept],
            "banded_round": torch.tensor(turn.round_),
        }


def _weighted(bands: tuple[float, ...], rows: Tensor) -> Tensor:
    """Returns Σ_{j≥1} c_j · row j − 1."""
    return torch.tensor(bands[1:], dtype=torch.float64) @ rows

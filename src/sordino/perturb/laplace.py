"""Laplace noise on L1-clipped updates, added by each client."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sordino.events import LaplaceDpEvent
from sordino.mechanism import ON_GRID, Perturber, needs
from sordino.perturb.price import prices, realised
from sordino.random.on_grid import noisy_rows, noisy_sums
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.types import Adjacency, Trust, Unit


@dataclass(frozen=True)
class LocalLaplace(Perturber):
    """Every client adds Laplace noise of scale noise_multiplier · norm of its bound to each coordinate, on a grid.

    **Formal guarantees**: unit client, trust local; L1 sensitivity `norm` under `zero_out`, twice that under
    `replace`. A shift a of L1 norm Δ over several coordinates is reached by moving one coordinate at a time; the
    trade-off functions of such steps compose as in group privacy, and for a log-concave location family that bound is
    the one-dimensional shift by Δ itself. So the one-dimensional Laplace event prices the vector. Row and noise are
    integers times a power of two, and the integers keep the L1 bound (`random/on_grid.py`).
    """

    trust: ClassVar[Trust] = "local"
    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"

    @property
    def arithmetic(self) -> str:
        return ON_GRID

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(1, bound, "Laplace noise", single=True)

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return prices(self.unit, "local", self.adjacency, knobs.noise_multiplier, LaplaceDpEvent)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        multiplier = turn.knobs.noise_multiplier
        keys = turn.randomness.keys("shield", turn.round_, bounded.clients)
        noisy = noisy_rows if bounded.stated.rowwise else noisy_sums
        rows = noisy(bounded.rows, bounded.norm, multiplier, keys, 1)
        return Sent(bounded.shielded(rows, multiplier**2))

    def release(self, summed: Summed, turn: Turn) -> Released:
        stddev = math.sqrt(2 * summed.squared_multiplier) * summed.norm / summed.weight
        return Released(summed.mean(turn.weights.dtype), stddev, realised(self, turn, summed.least_squared_multiplier))

"""Gaussian noise where one party adds all of it: each client (local trust) or the server (central trust)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.errors import SordinoError
from sordino.events import DpEvent, GaussianDpEvent
from sordino.mechanism import ON_GRID, Perturber, needs
from sordino.perturb.price import prices, realised, sampled
from sordino.random.on_grid import MOST_ROWS, noisy_rows, noisy_sums
from sordino.random.streams import SERVER
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.types import Adjacency, IntArray, Trust, Unit

SERVER_ID: IntArray = np.array([SERVER])


@dataclass(frozen=True)
class LocalGaussian(Perturber):
    """Every client adds N(0, (noise_multiplier · norm of its bound)²) to its own message, on a grid.

    **Formal guarantees**: unit client, trust local. The message is private by itself: sensitivity `norm` under
    `zero_out`, twice that under `replace`; a participation costs one Gaussian of that multiplier. Row and noise are
    integers times a power of two (`random/on_grid.py`), so low bits tell no more; that the message is then written
    in single precision is post-processing.
    **Edge cases**: noise is keyed by (round, client): never shared, never reused.
    """

    trust: ClassVar[Trust] = "local"
    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"
    least: int = 1
    """Fewest messages that every sum holds, whose noise all hides each of them from an outsider."""

    @property
    def arithmetic(self) -> str:
        return ON_GRID

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(2, bound, "Gaussian noise", single=True)

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        z = knobs.noise_multiplier
        return prices(self.unit, "local", self.adjacency, z, GaussianDpEvent, least=self.least)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        multiplier = turn.knobs.noise_multiplier
        keys = turn.randomness.keys("shield", turn.round_, bounded.clients)
        noisy = noisy_rows if bounded.stated.rowwise else noisy_sums
        rows = noisy(bounded.rows, bounded.norm, multiplier, keys)
        return Sent(bounded.shielded(rows, multiplier**2))

    def release(self, summed: Summed, turn: Turn) -> Released:
        stddev = math.sqrt(summed.squared_multiplier) * summed.norm / summed.weight
        return Released(summed.mean(turn.weights.dtype), stddev, realised(self, turn, summed.least_squared_multiplier))


@dataclass(frozen=True)
class CentralGaussian(Perturber):
    """A trusted server adds N(0, (noise_multiplier · norm of the bound)²) to the sum, on a grid.

    **Formal guarantees**: trust central. The sum moves by at most `norm` when one unit comes or goes, and the
    denominator is a public constant. Where rows are sums over secret Poisson batches of records, `sampling_rate`
    amplifies. The server itself sees everything, and its price says so. The sum is rounded to a grid, one unit moves
    the rounded sum by at most 10⁻⁵ more than the unrounded one, and noise is scaled by that larger bound: the
    multiplier that is charged is the one that is there (`random/on_grid.py`, also for what floats do before).
    **Edge cases**: more than 100,000 rows are refused, as the rounding of their sum is not covered.
    """

    trust: ClassVar[Trust] = "central"
    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"
    sampling_rate: float = 1.0
    """Probability that a record is in a round's batch (record unit)."""

    @property
    def arithmetic(self) -> str:
        return ON_GRID

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(2, bound, "Gaussian noise")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return prices(self.unit, "central", self.adjacency, knobs.noise_multiplier, self._event)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        return Sent(bounded.shielded(bounded.rows))

    def release(self, summed: Summed, turn: Turn) -> Released:
        multiplier = turn.knobs.noise_multiplier
        require_covered(summed)
        keys = turn.randomness.keys("release", turn.round_, SERVER_ID)
        mean = noisy_sums(summed.total[None], summed.norm, multiplier, keys)[0] / summed.weight
        stddev = multiplier * summed.norm / summed.weight
        return Released(mean.to(turn.weights.dtype), stddev, realised(self, turn, multiplier**2))

    def _event(self, noise_multiplier: float) -> DpEvent:
        return sampled(GaussianDpEvent(noise_multiplier), self.sampling_rate)


def require_covered(summed: Summed) -> None:
    """Refuses a sum of floats over more clients than the bound on its rounding holds for.

    Raises:
        SordinoError: there are more than `MOST_ROWS`.
    """
    if len(summed.survivors) > MOST_ROWS:
        raise SordinoError(f"a sum of more than {MOST_ROWS:,} clients is not covered: select fewer (select.size)")

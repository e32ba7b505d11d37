"""Noise shares that are redrawn when clients drop out, as Baek et al. print it; and what that leaves uncovered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sordino.errors import ProtocolError
from sordino.events import DpEvent, GaussianDpEvent, Guarantee, Unbounded
from sordino.mechanism import Perturber, needs
from sordino.stages import Bounded, Kept, Prices, Released, Revealed, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Survivors, Turn
from sordino.types import IntArray

Form = Literal["uncalibrated", "plain", "extended"]
"""No second draw (the problem that the paper states), Algorithm 2, or Algorithm 3 (first noise for n_0)."""

MOVING = (
    "the mean is divided by the survivors' total weight and its noise is scaled by it: both change when a client comes "
    "or goes, and nothing hides that"
)


_ROUNDING = 1e-6
"""Relative room for shares that are stated one by one."""


@dataclass(frozen=True, eq=False)
class PrintedShares(Perturber):
    """First noise e_i ~ N(0, v·w_i/n), then e′_i = −e_i + N(0, v·w_i/n′), sent in the clear; v = (2·norm·z)².

    n is the cohort's weight (`plain`) or the least admissible weight n_0 (`extended`); n′ is the survivors'.

    **Formal guarantees** (unit client, zero_out, weights public; n_e = n or n_0). The server sees the sum with Σe_i and
    every e′_i. Given e′_i, e_i is Gaussian with variance v_e·v_f/(v_e + v_f) = v·w_i/(n_e + n′), independent over i, so
    the noise around the sum has variance v·n′/(n_e + n′), not v: the release is one Gaussian of multiplier
    2z·√(n′/(n_e + n′)). A client that vanishes before it sends e′_i leaves its whole v·w_i/n_e, which is more. For an
    outsider, who never sees e′, the noise is v if everybody answers; with b of the weight silent it is
    v·(1 − b/n′ + b/n_e): never below v in the extended form (n_e = n_0 ≤ n′), down to v·n′/n in the plain one. Prices
    are for the fewest survivors that a round accepts. Under add_remove nothing is proved: see `MOVING`.
    **Edge cases**: a cohort or survivors below the least admissible weight abort the round.
    **Reference**: Baek et al. (2021), Algorithms 2 and 3.
    """

    form: Form
    weights: Tensor
    """w_i of every client of the population: each sends its own to the server (Algorithm 3, line 14)."""
    least: float
    """n_0, the least weight that a round accepts (extended)."""
    tolerance: float = 0.0
    """Share of a cohort's weight that may vanish (uncalibrated, plain)."""
    proves_nothing: str | None = None
    """Why not even the promise for public weights holds, if it does not."""

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(2, bound, "Gaussian noise")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return self._prices(knobs)

    def _prices(self, knobs: Knobs, present: float = 1.0) -> Prices:
        """Returns the prices where the sum holds this share of the variance that is counted on."""
        alive = 1 - self.tolerance
        server = present * {"uncalibrated": alive, "plain": alive / (1 + alive), "extended": 0.5}[self.form]
        outsider = present * self._planned

        def gaussian(kept: float) -> DpEvent:
            if self.proves_nothing is not None:
                return Unbounded(self.proves_nothing)
            return GaussianDpEvent(2 * knobs.noise_multiplier * math.sqrt(kept))

        return (
            (Guarantee("client", "server", "zero_out"), gaussian(server)),
            (Guarantee("client", "outsider", "zero_out"), gaussian(outsider)),
            (Guarantee("client", "outsider", "add_remove"), Unbounded(MOVING)),
        )

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        first, multiplier = self._first(turn), 2 * turn.knobs.noise_multiplier
        if self.form == "extended":
            self._require(self._weight(turn.cohort), turn)
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        noise *= multiplier * bounded.norm * (bounded.weights / first).sqrt()[:, None]
        stated = multiplier**2 * bounded.weights.double() / first
        message = bounded.shielded(bounded.rows + noise, stated)
        return Sent(message, Kept(bounded.clients, noise, bounded.weights, bounded.norm))

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        left, multiplier = self._weight(survivors.clients), 2 * turn.knobs.noise_multiplier
        self._require(left, turn)
        if self.form == "uncalibrated":
            return None
        fresh = turn.randomness.normals("calibrate", turn.round_, kept.clients, kept.noise.shape[1])
        rows = kept.noise - fresh * multiplier * kept.norm * (kept.weights / left).sqrt()[:, None]
        return Revealed(kept.clients, rows, multiplier**2 * kept.weights.double() * (1 / self._first(turn) - 1 / left))

    def release(self, summed: Summed, turn: Turn) -> Released:
        stated, multiplier = max(0.0, summed.squared_multiplier), 2 * turn.knobs.noise_multiplier
        stddev = math.sqrt(stated) * summed.norm / summed.weight
        # for every number of survivors that a round accepts the sum holds what is priced; less is settled as less
        present = stated / (multiplier**2 * self._planned) if multiplier else 1.0
        paid = self._prices(turn.knobs, 1.0 if present >= 1 - _ROUNDING else present)
        return Released(summed.mean(turn.weights.dtype), stddev, paid)

    @property
    def _planned(self) -> float:
        """The variance that is counted on in a sum, over that of all shares together."""
        return 1.0 if self.form == "extended" else 1 - self.tolerance

    def _weight(self, clients: IntArray) -> float:
        return float(self.weights[torch.from_numpy(clients)].sum(dtype=torch.float64))

    def _first(self, turn: Turn) -> float:
        return self.least if self.form == "extended" else self._weight(turn.cohort)

    def _require(self, weight: float, turn: Turn) -> None:
        least = self.least if self.form == "extended" else (1 - self.tolerance) * self._weight(turn.cohort)
        if weight < least * (1 - 1e-9) or weight <= 0:
            raise ProtocolError(
                f"clients of weight {weight:g} are left in the round and {least:g} is needed: "
                "raise aggregate.tolerance, or ask more clients"
            )

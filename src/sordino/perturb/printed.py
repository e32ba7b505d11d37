"""Noise shares that are redrawn when clients drop out, as Baek et al. print it; and what that leaves uncovered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sordino.errors import ProtocolError
from sordino.events import GaussianDpEvent, Guarantee, Unbounded
from sordino.mechanism import Prices, Turn
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import IntArray

Form = Literal["uncalibrated", "plain", "extended"]
"""No second draw (the problem that the paper states), Algorithm 2, or Algorithm 3 (first noise for n_0)."""

MOVING = (
    "the mean is divided by the survivors' total weight and its noise is scaled by it: both change when a client comes "
    "or goes, and nothing hides that"
)


@dataclass(frozen=True, eq=False)
class PrintedShares:
    """First noise e_i ~ N(0, v·w_i/n), then e′_i = −e_i + N(0, v·w_i/n′), sent in the clear; v = (2·clip_norm·z)².

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

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        first = self._first(turn)
        if self.form == "extended":
            self._require(self._weight(turn.cohort), turn)
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        noise *= self._stddev(turn) * (bounded.weights / first).sqrt()[:, None]
        return Shielded(bounded.clients, bounded.rows + noise, bounded.weights, kept=noise)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        left = self._weight(survivors)
        self._require(left, turn)
        if self.form == "uncalibrated" or message.kept is None:
            return None
        fresh = turn.randomness.normals("calibrate", turn.round_, message.clients, message.kept.shape[1])
        return message.kept - fresh * self._stddev(turn) * (message.weights / left).sqrt()[:, None]

    def release(self, summed: Summed, turn: Turn) -> Released:
        left = self._weight(summed.survivors)
        shrink = math.sqrt(left / self._first(turn)) if self.form == "uncalibrated" else 1.0
        return Released(summed.total / summed.weight, shrink * self._stddev(turn) / summed.weight)

    def price(self, turn: Turn) -> Prices:
        return printed_prices(turn.knob("noise_multiplier"), self.form, self.tolerance)

    def _stddev(self, turn: Turn) -> float:
        return 2 * turn.knob("clip_norm") * turn.knob("noise_multiplier")

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


def printed_prices(noise_multiplier: float, form: Form, tolerance: float) -> Prices:
    """Returns what one release costs, for the fewest survivors that a round accepts."""
    alive = 1 - tolerance
    server = {"uncalibrated": alive, "plain": alive / (1 + alive), "extended": 0.5}[form]
    outsider = 1.0 if form == "extended" else alive

    def gaussian(kept: float) -> GaussianDpEvent:
        return GaussianDpEvent(2 * noise_multiplier * math.sqrt(kept))

    return (
        (Guarantee("client", "server", "zero_out"), gaussian(server)),
        (Guarantee("client", "outsider", "zero_out"), gaussian(outsider)),
        (Guarantee("client", "outsider", "add_remove"), Unbounded(MOVING)),
    )

"""Gaussian noise that the clients share out among themselves (distributed trust), exact whoever drops out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from sordino.events import DpEvent, GaussianDpEvent
from sordino.mechanism import Prices, Turn
from sordino.perturb.price import prices, sampled
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import Adjacency, IntArray, Unit


def admissible(cohort: int, tolerance: float) -> int:
    """Returns n_0, the smallest number of survivors that a round accepts: its shares must suffice even then."""
    return max(1, math.ceil(round(cohort * (1 - tolerance), 9)))


@dataclass(frozen=True)
class GaussianShares:
    """Shares for the worst admissible cohort, thinned to exactly the target once the survivors are counted.

    Each client draws e ~ N(0, v_e) with v_e = σ²/n_0, σ = noise_multiplier · clip_norm. When n′ ≥ n_0 survive, it
    splits e = G + R with G = (v_f/v_e)·e + N(0, v_f(1 − v_f/v_e)), v_f = σ²/n′, and reveals R alone, which is
    subtracted.

    **Formal guarantees**: trust distributed: the server sees only the sum, and the R's. Cov(G, R) = Cov(G, e) − Var(G)
    = v_f − v_f = 0, and both are Gaussian, so R tells nothing about the noise that stays: Σ G ~ N(0, σ²) exactly, for
    every observer. A client that vanishes before it reveals leaves its whole e: more noise, never less. The price is
    one Gaussian of the multiplier; honest clients are assumed to add their shares.
    **Edge cases**: fewer than n_0 survivors abort the round in the aggregator; with n′ = n_0 nothing is revealed.
    **Reference**: Baek et al. calibrate by −e + fresh noise, which is correlated with what stays (docs/mechanisms.md).
    """

    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"
    tolerance: float = 0.0
    sampling_rate: float = 1.0
    """Probability that a record is in a round's batch, where rows are sums over secret batches (record unit)."""

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        share = self._stddev(turn) / math.sqrt(admissible(len(turn.cohort), self.tolerance))
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1]).mul_(share)
        kept = noise if self.tolerance > 0 else None
        return Shielded(bounded.clients, bounded.rows + noise, bounded.weights, kept=kept)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        stays = admissible(len(turn.cohort), self.tolerance) / len(survivors)  # v_f / v_e
        if message.kept is None or stays >= 1:
            return None
        final = self._stddev(turn) / math.sqrt(len(survivors))
        fresh = turn.randomness.normals("thin", turn.round_, message.clients, message.kept.shape[1])
        return message.kept * (1 - stays) - fresh.mul_(final * math.sqrt(1 - stays))

    def release(self, summed: Summed, turn: Turn) -> Released:
        return Released(summed.total / summed.weight, self._stddev(turn) / summed.weight)

    def price(self, turn: Turn) -> Prices:
        return self.prices(turn.knob("noise_multiplier"))

    def prices(self, noise_multiplier: float) -> Prices:
        """Returns the price for a noise multiplier: what calibration asks for."""

        def event(z: float) -> DpEvent:
            return sampled(GaussianDpEvent(z), self.sampling_rate)

        return prices(self.unit, "distributed", self.adjacency, noise_multiplier, event)

    def _stddev(self, turn: Turn) -> float:
        return turn.knob("noise_multiplier") * turn.knob("clip_norm")

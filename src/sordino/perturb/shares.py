"""Gaussian noise that the clients share out among themselves (distributed trust), exact whoever drops out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from sordino.events import DpEvent, GaussianDpEvent
from sordino.mechanism import Perturber, needs
from sordino.perturb.gaussian import SERVER_ID
from sordino.perturb.price import prices, realised, sampled
from sordino.stages import Bounded, Kept, Prices, Released, Revealed, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Survivors, Turn
from sordino.types import Adjacency, Trust, Unit


def admissible(cohort: int, tolerance: float) -> int:
    """Returns n_0, the smallest number of survivors that a round accepts: its shares must suffice even then."""
    return max(1, math.ceil(round(cohort * (1 - tolerance), 9)))


FLOAT_STAND_IN = (
    "noise shares were summed as floating-point numbers, which stands in for a secure sum of integers: the low bits of "
    'such a sum can tell more than this certificate says; set aggregate.kind = "auto" for noise in integers'
)
"""What a certificate has to remark where these shares were used."""


@dataclass(frozen=True)
class GaussianShares(Perturber):
    """Shares for the worst admissible cohort, thinned to exactly the target once the survivors are counted.

    Each client draws e ~ N(0, v_e) with v_e = σ²/n_0, σ = noise_multiplier · norm of the bound. When n′ ≥ n_0 survive,
    it splits e = G + R with G = (v_f/v_e)·e + N(0, v_f(1 − v_f/v_e)), v_f = σ²/n′, and reveals R alone, which is
    subtracted.

    **Formal guarantees**: trust distributed: the server sees only the sum, and the R's. Cov(G, R) = Cov(G, e) − Var(G)
    = v_f − v_f = 0, and both are Gaussian, so R tells nothing about the noise that stays: Σ G ~ N(0, σ²) exactly, for
    every observer. A client that vanishes before it reveals leaves its whole e: more noise, never less. The price is
    one Gaussian of the multiplier; honest clients are assumed to add their shares.
    **Not covered**: shares are floats, and float sums lie on lattices that depend on what was added. The proof is for
    real numbers; the low bits of the sum are not covered (`FLOAT_STAND_IN`). `IntegerShares` has no such gap.
    **Edge cases**: fewer than n_0 survivors abort the round in the aggregator; with n′ = n_0 nothing is revealed. Where
    a Poisson cohort is empty, the server adds N(0, σ²) in its place: an outsider must not see from missing noise that
    nobody's coin fell.
    **Reference**: Baek et al. calibrate by −e + fresh noise, which is correlated with what stays (docs/mechanisms.md).
    """

    trust: ClassVar[Trust] = "distributed"
    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"
    tolerance: float = 0.0
    sampling_rate: float = 1.0
    """Probability that a record is in a round's batch, where rows are sums over secret batches (record unit)."""
    thin: bool = True
    """Whether shares are thinned; else the worst case's noise stays, whoever survived: more, at the same price."""
    vanishing: bool = False
    """Whether clients can vanish at all: with tolerance 0 each of them aborts a round, which everybody sees."""

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(2, bound, "Gaussian noise")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        aborts = self.tolerance > 0 or self.vanishing
        return prices(self.unit, "distributed", self.adjacency, knobs.noise_multiplier, self._event, aborts)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        share = turn.knobs.noise_multiplier / math.sqrt(admissible(len(turn.cohort), self.tolerance))
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        noise.mul_(share * bounded.norm)
        message = bounded.shielded(bounded.rows + noise, share**2)
        keeps = self.thin and self.tolerance > 0
        kept = Kept(bounded.clients, noise, bounded.weights, bounded.norm) if keeps else None
        return Sent(message, kept)

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        least, left = admissible(len(turn.cohort), self.tolerance), len(survivors.clients)
        stays = least / left  # v_f / v_e
        if stays >= 1:
            return None
        final = turn.knobs.noise_multiplier * kept.norm / math.sqrt(left)
        fresh = turn.randomness.normals("thin", turn.round_, kept.clients, kept.noise.shape[1])
        rows = kept.noise * (1 - stays) - fresh.mul_(final * math.sqrt(1 - stays))
        gone = turn.knobs.noise_multiplier**2 * (1 / least - 1 / left)
        return Revealed(kept.clients, rows, torch.full((len(rows),), gone, dtype=torch.float64))

    def release(self, summed: Summed, turn: Turn) -> Released:
        summed = self._completed(summed, turn)
        # the floats that clients state add up to another last bit for another number of them: told is what was planned
        squared = summed.squared_multiplier if self.tolerance > 0 else turn.knobs.noise_multiplier**2
        stddev = math.sqrt(max(0.0, squared)) * summed.norm / summed.weight
        return Released(summed.mean(turn.weights.dtype), stddev, realised(self, turn, summed.squared_multiplier))

    def _completed(self, summed: Summed, turn: Turn) -> Summed:
        """Returns the sum; that of an empty cohort with noise from the server."""
        if not summed.empty:
            return summed
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(summed.total))[0]
        total = summed.total + noise.mul_(turn.knobs.noise_multiplier * summed.norm)
        return replace(summed, total=total, squared_multiplier=turn.knobs.noise_multiplier**2)

    def _event(self, noise_multiplier: float) -> DpEvent:
        return sampled(GaussianDpEvent(noise_multiplier), self.sampling_rate)

"""Skellam noise that the clients share out among themselves, in the integers that a secure sum adds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sordino.errors import RecipeError
from sordino.events import DpEvent, Skellam
from sordino.mechanism import Prices, Turn
from sordino.perturb.price import prices, sampled
from sordino.perturb.shares import admissible
from sordino.perturb.skellam import Noise, SkellamShares, random_bits
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import Adjacency, FloatArray, IntArray, Unit


class Rounding(Protocol):
    """How floats become integers, and what one unit can then change (`aggregate.integers`, `aggregate.dither`)."""

    @property
    def clip_norm(self) -> float:
        """L2 bound on what one unit puts into a row, before rounding."""

    @property
    def scale(self) -> float:
        """How many integers lie between 0 and 1."""

    def round_row(self, row: FloatArray, generator: np.random.Generator) -> IntArray:
        """Returns one client's row, scaled and rounded at random."""

    def event(self, variance: float, adjacency: Adjacency = "zero_out") -> Skellam:
        """Returns what a sum with Skellam noise of this variance (in integers) does."""

    def modulus_bits(self, cohort: int, variance: float) -> int:
        """Returns the bits with which the sum of a cohort does not wrap."""


@dataclass(frozen=True)
class IntegerShares:
    """Rows rounded to integers plus Skellam shares for the worst admissible cohort, split to exactly the target later.

    The target on the sum is Skellam of variance (noise_multiplier · clip_norm · scale)², whoever drops out.

    **Formal guarantees**: trust distributed. What one unit changes is that of the *rounded* vector, which `rounding`
    states; noise is integer and exact; what survivors reveal is independent of what stays (`skellam.SkellamShares`),
    so the sum carries exactly the target, and more if a client vanishes before it reveals. The price is the Skellam
    event of that variance. All but a share `corrupt` of a cohort are assumed to be honest and add their shares.
    **Edge cases**: rounding, noise and splitting draw from streams of their own, keyed by (round, client); a clip norm
    above the one that integers were laid out for is refused.
    **Reference**: Agarwal, Kairouz, Liu (2021), "The Skellam Mechanism for Differentially Private Federated Learning".
    """

    rounding: Rounding
    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"
    tolerance: float = 0.0
    sampling_rate: float = 1.0
    corrupt: float = 0.0
    """Share of a cohort that may work with the server: its noise is not counted on."""

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        shares, rows, kept = self._shares(turn), [], []
        for client, row in zip(bounded.clients.tolist(), bounded.rows.double().numpy(), strict=True):
            noise = shares.draw(len(row), random_bits(turn.randomness, "shield", turn.round_, client))
            generator = turn.randomness.generator("round", turn.round_, client)
            rows.append(self.rounding.round_row(row, generator) + noise.values)
            kept.append(np.stack([noise.plus, noise.minus]))
        width = bounded.rows.shape[1]
        values = np.stack(rows) if rows else np.empty((0, width), np.int64)
        counts = torch.from_numpy(np.stack(kept)) if kept and self.tolerance > 0 else None
        return Shielded(bounded.clients, torch.from_numpy(values), bounded.weights, kept=counts)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        shares = self._shares(turn)
        if message.kept is None or len(survivors) == shares.smallest_cohort:
            return None
        revealed = [
            shares.removable(
                Noise(plus, minus), len(survivors), random_bits(turn.randomness, "thin", turn.round_, client)
            )
            for client, (plus, minus) in zip(message.clients.tolist(), message.kept.numpy(), strict=True)
        ]
        return torch.from_numpy(np.stack(revealed)) if revealed else None

    def release(self, summed: Summed, turn: Turn) -> Released:
        mean = summed.total.double() / (self.rounding.scale * summed.weight)
        stddev = turn.knob("noise_multiplier") * turn.knob("clip_norm") / summed.weight
        return Released(mean.to(turn.weights.dtype), stddev)

    def price(self, turn: Turn) -> Prices:
        return self.prices(turn.knob("noise_multiplier"))

    def prices(self, noise_multiplier: float) -> Prices:
        """Returns the price for a noise multiplier: what calibration asks for."""

        unit = self.rounding.clip_norm * self.rounding.scale

        def event(z: float) -> DpEvent:
            return sampled(self.rounding.event((z * unit) ** 2), self.sampling_rate)

        return prices(self.unit, "distributed", self.adjacency, noise_multiplier, event)

    def modulus_bits(self, turn: Turn) -> int:
        """Returns the bits with which the sum of a turn's cohort does not wrap, even if nobody reveals anything."""
        drawn = len(turn.cohort) * float(self._shares(turn).share_variance())
        return self.rounding.modulus_bits(len(turn.cohort), drawn)

    def _shares(self, turn: Turn) -> SkellamShares:
        clip_norm = turn.knob("clip_norm")
        if clip_norm > self.rounding.clip_norm * (1 + 1e-9):
            raise RecipeError(
                f"clip_norm is {clip_norm:g} and integers were laid out for {self.rounding.clip_norm:g}: "
                "a secure sum needs a clip norm that does not grow"
            )
        stddev = turn.knob("noise_multiplier") * clip_norm * self.rounding.scale
        colluders = math.floor(self.corrupt * len(turn.cohort))
        return SkellamShares(stddev**2, admissible(len(turn.cohort), self.tolerance), colluders)

"""Skellam noise that the clients share out among themselves, in the integers that a secure sum adds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from sordino.errors import RecipeError
from sordino.events import DpEvent, Skellam
from sordino.mechanism import INTEGERS, Perturber, needs
from sordino.perturb.price import prices, realised, sampled
from sordino.perturb.shares import admissible
from sordino.perturb.skellam import SkellamNoise, SkellamShares, random_bits, skellam, skellam_rows
from sordino.random.keystream import streams_of, uniform_rows
from sordino.random.streams import SERVER
from sordino.stages import Bounded, Kept, Prices, Released, Revealed, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Survivors, Terms, Turn
from sordino.types import Adjacency, FloatArray, IntArray, Trust, Unit, whole_part

_BLOCK = 1 << 18
"""Entries that are rounded at once."""


class Rounding(Protocol):
    """How floats become integers, and what one unit can then change (`aggregate.integers`, `aggregate.dither`)."""

    @property
    def clip_norm(self) -> float:
        """L2 bound on what one unit puts into a row, before rounding."""

    @property
    def scale(self) -> float:
        """How many integers lie between 0 and 1."""

    def round_rows(self, rows: FloatArray, draw: Callable[[IntArray, int], FloatArray]) -> IntArray:
        """Returns clients' rows, scaled and rounded at random (by uniform numbers for rows, in an attempt)."""

    def event(self, variance: float, adjacency: Adjacency = "zero_out") -> Skellam:
        """Returns what a sum with Skellam noise of this variance (in integers) does."""

    def modulus_bits(self, cohort: int, variance: float) -> int:
        """Returns the bits with which the sum of a cohort does not wrap."""


@dataclass(frozen=True)
class IntegerShares(Perturber):
    """Rows rounded to integers plus Skellam shares for the worst admissible cohort, split to exactly the target later.

    The target on the sum is Skellam of variance (noise_multiplier · norm · scale)², whoever drops out.

    **Formal guarantees**: trust distributed. What one unit changes is that of the *rounded* vector, which `rounding`
    states; noise is integer and exact; what survivors reveal is independent of what stays (`skellam.SkellamShares`),
    so the sum carries exactly the target, and more if a client vanishes before it reveals. The price is the Skellam
    event of that variance. All but a share `corrupt` of a cohort are assumed to be honest and add their shares; where
    nobody may vanish the sum carries target/(1 − corrupt), whatever the size of the cohort, since noise that followed
    its size would tell an outsider who was in it.
    **Edge cases**: rounding, noise and splitting draw from streams of their own, keyed by (round, client); a clip norm
    other than the one that integers were laid out for is refused.
    **Reference**: Agarwal, Kairouz, Liu (2021), "The Skellam Mechanism for Differentially Private Federated Learning".
    """

    trust: ClassVar[Trust] = "distributed"
    rounding: Rounding
    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"
    tolerance: float = 0.0
    sampling_rate: float = 1.0
    corrupt: float = 0.0
    """Share of a cohort that may work with the server: its noise is not counted on."""
    thin: bool = True
    """Whether shares are thinned; else the worst case's noise stays, whoever survived: more, at the same price."""
    vanishing: bool = False
    """Whether clients can vanish at all: with tolerance 0 each of them aborts a round, which everybody sees."""

    @property
    def arithmetic(self) -> str:
        return INTEGERS

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(2, bound, "Skellam noise")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        aborts = self.tolerance > 0 or self.vanishing
        return prices(self.unit, "distributed", self.adjacency, knobs.noise_multiplier, self._event, aborts)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        shares, (clients, width) = self._shares(turn.terms, bounded.norm), bounded.rows.shape
        keys, dither = (turn.randomness.keys(purpose, turn.round_, bounded.clients) for purpose in ("shield", "round"))
        noise, values = skellam_rows(shares.share_variance(), width, keys), np.empty((clients, width), np.int64)
        uniforms, high = streams_of(dither), max(1, _BLOCK // max(1, width))
        for first in range(0, clients, high):
            part = slice(first, first + high)
            rows = bounded.rows[part].double().numpy()
            values[part] = self.rounding.round_rows(rows, uniform_rows(uniforms, width, first))
        values += noise[:, 0]
        values -= noise[:, 1]
        stated = self._stated(shares.share_variance(), bounded.norm, clients)
        message = bounded.shielded(torch.from_numpy(values), stated)
        if not clients or self.tolerance == 0 or not self.thin:
            return Sent(message)
        return Sent(message, Kept(bounded.clients, torch.from_numpy(noise), bounded.weights, bounded.norm))

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        shares, left = self._shares(turn.terms, kept.norm), len(survivors.clients)
        if left <= shares.smallest_cohort:  # fewer than that abort the round: nothing is subtracted either
            return None
        revealed = [
            shares.removable(SkellamNoise(plus, minus), left, random_bits(turn.randomness, "thin", turn.round_, client))
            for client, (plus, minus) in zip(kept.clients.tolist(), kept.noise.numpy(), strict=True)
        ]
        gone = self._stated(shares.share_variance() - shares.share_variance(left), kept.norm, len(revealed))
        return Revealed(kept.clients, torch.from_numpy(np.stack(revealed)), gone)

    def release(self, summed: Summed, turn: Turn) -> Released:
        summed = self._completed(summed, turn)
        mean = summed.total.double() / (self.rounding.scale * summed.weight)
        # the floats that clients state add up to another last bit for another number of them: told is what was planned
        squared = summed.squared_multiplier if self.tolerance > 0 else self._planned(turn.knobs)
        stddev = math.sqrt(max(0.0, squared)) * summed.norm / summed.weight
        honest = summed.squared_multiplier * self._honest(len(summed.survivors), len(turn.cohort))
        return Released(mean.to(turn.weights.dtype), stddev, realised(self, turn, honest))

    def _event(self, noise_multiplier: float) -> DpEvent:
        unit = self.rounding.clip_norm * self.rounding.scale
        return sampled(self.rounding.event((noise_multiplier * unit) ** 2), self.sampling_rate)

    def _stated(self, variance: Fraction, norm: float, clients: int) -> Tensor:
        """Returns a share's variance in integers as squared multipliers of the bound."""
        return torch.full((clients,), float(variance) / (norm * self.rounding.scale) ** 2, dtype=torch.float64)

    @property
    def _not_counted_on(self) -> Fraction:
        """The share of corrupt clients as it was written down, so that no rounding depends on a cohort's size."""
        return Fraction(str(self.corrupt))

    def _planned(self, knobs: Knobs) -> float:
        """Returns the squared multiplier of the noise in a sum from which nobody may vanish, whoever shares it."""
        return knobs.noise_multiplier**2 / float(1 - self._not_counted_on)

    def _corrupt_of(self, terms: Terms) -> int:
        return whole_part(self.corrupt, len(terms.cohort))

    def _honest(self, survivors: int, cohort: int) -> float:
        """Returns the share of the noise in a sum that does not come from colluders."""
        return (survivors - whole_part(self.corrupt, cohort)) / survivors if survivors else 1.0

    def _completed(self, summed: Summed, turn: Turn) -> Summed:
        """Returns the sum; that of an empty cohort with noise from the server (see `GaussianShares`)."""
        if not summed.empty:
            return summed
        squared = self._planned(turn.knobs)
        variance = squared * (summed.norm * self.rounding.scale) ** 2
        noise = skellam(variance, len(summed.total), random_bits(turn.randomness, "release", turn.round_, SERVER))
        return replace(summed, total=torch.from_numpy(noise.values), squared_multiplier=squared)

    def modulus_bits(self, terms: Terms) -> int:
        """Returns the bits with which the sum of a cohort does not wrap, even if nobody reveals anything."""
        drawn = len(terms.cohort) * float(self._shares(terms, terms.knobs.clip_norm).share_variance())
        return self.rounding.modulus_bits(len(terms.cohort), drawn)

    def _shares(self, terms: Terms, norm: float) -> SkellamShares:
        if not math.isclose(norm, self.rounding.clip_norm, rel_tol=1e-9):
            raise RecipeError(
                f"clip_norm is {norm:g} and integers were laid out for {self.rounding.clip_norm:g}: "
                "a secure sum needs a clip norm that stays as it is"
            )
        stddev = terms.knobs.noise_multiplier * norm * self.rounding.scale
        colluders = self._not_counted_on * len(terms.cohort) if self.tolerance == 0 else self._corrupt_of(terms)
        return SkellamShares(stddev**2, admissible(len(terms.cohort), self.tolerance), colluders)

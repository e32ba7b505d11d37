"""Rounding for rows of many records, where the unit is one record of them: a common dither, and no norm to hold to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.aggregate.integers import UniformRows
from sordino.errors import DataError, RecipeError
from sordino.events import Skellam
from sordino.types import Adjacency, FloatArray, IntArray

_SLACK = math.sqrt(2 * 150 * math.log(10))
"""√(2 ln(1/β)) for β = 10⁻¹⁵⁰, the chance with which the sensitivity may be larger than stated."""

_LARGEST = 2.0**32 - 2
"""Scaled entries stay within it: there, two roundings of doubles are off by less than `_OFF` together."""

_OFF = 2.0**-19


def _rest(width: int) -> float:
    """Returns what d roundings add to the squared norm, and the slack on that."""
    return width / 4 + _SLACK * math.sqrt(width) / 2


@dataclass(frozen=True)
class Dither:
    """Rounds v·scale up or down at random, entry by entry; a record of at most clip_norm then changes little more.

    **Formal guarantees**: let x and x + Δ be a client's row without and with a record, ‖Δ‖₂ ≤ clip_norm, and U the
    dither, uniform and independent in every entry: both are rounded to ⌊γx + U⌋ and ⌊γ(x + Δ) + U⌋ with γ = scale.
    Write D for the difference and L for γ·clip_norm + √d·2⁻¹⁹; the second part is for the doubles: scaling and adding U
    round entries below 2^32 by less than 2⁻²⁰ in all, for both rows together by less than 2⁻¹⁹. Two bounds on ‖D‖₂
    hold, and the smaller one is used.
    (1) Entries differ by less than γ|Δ_j| + 2⁻¹⁹ + 1, so ‖D‖₂ ≤ L + √d, always.
    (2) D_j is ⌊γΔ_j⌋ or one more and has mean γΔ_j, since ⌊y + U⌋ has mean y; entries of U are independent, so D is
    γΔ rounded at random, entry by entry. For such a vector ‖D‖₂² ≤ L² + d/4 + √(2 ln(1/β))·(L + √d/2), except with
    probability β over U (the bound that `Grid` conditions on). β is 10⁻¹⁵⁰, as for the shifts that are forgotten
    when integer noise is priced (docs/accounting.md): less than what rounding of the accountant leaves.
    ‖D‖₁ is at most √d·‖D‖₂, and at most ‖D‖₂² since |z| ≤ z² for integers. U is drawn apart from the data, and telling
    it to the observer as well can only help him: the sensitivities hold for the release (quasi-convexity of the
    divergences). Rows themselves may be of any norm. That one record moves a row of floats, as it was computed, by at
    most clip_norm is `train/gradients.py`'s promise, which leaves a margin for how sums are rounded.
    **Edge cases**: scaled entries beyond 2^32 stay just below it, which moves no two rows further apart: to refuse them
    would tell, for nothing, on which side of a number a sum over records lies. Rows that are not finite are refused.
    **Reference**: Kairouz, Liu, Steinke (2021), "The Distributed Discrete Gaussian Mechanism", section 4.1,
    without conditioning.
    """

    width: int
    clip_norm: float
    scale: float
    records: int
    """Most records whose vectors can be in one sum: public, for the modulus alone."""

    @classmethod
    def fine(cls, width: int, clip_norm: float, records: int, inflation: float = 0.01) -> Dither:
        """Returns the coarsest rounding that raises the L2 sensitivity by at most this share."""
        certain, a = math.sqrt(width) / inflation, (1 + inflation) ** 2 - 1
        likely = (_SLACK + math.sqrt(_SLACK**2 + 4 * a * _rest(width))) / (2 * a)  # the root of a·L² = slack·L + rest
        return cls(width, clip_norm, min(certain, likely) / clip_norm, records)

    def event(self, variance: float, adjacency: Adjacency = "add_remove") -> Skellam:
        """Returns what the release of a sum with Skellam noise of this variance (in integers) does to one record."""
        if adjacency == "replace":
            raise RecipeError("records come and go one at a time in a secure sum: use adjacency add_remove")
        root = math.sqrt(self.width)
        length = self.clip_norm * self.scale + root * _OFF
        l2 = min(length + root, math.sqrt(length**2 + _SLACK * length + _rest(self.width)))
        return Skellam(variance, l2, min(root * l2, l2**2))

    def modulus_bits(self, cohort: int, variance: float, wrap: float = 2.0**-40) -> int:
        """Returns the fewest bits with which the sum cannot wrap, except with probability `wrap` (Bernstein)."""
        tail = math.log(2 * self.width / wrap)
        noise = tail / 3 + math.sqrt(tail**2 / 9 + 2 * variance * tail)
        bits = math.floor(self.records * self.clip_norm * self.scale + cohort + noise + 1).bit_length() + 1
        if bits > 64:
            raise RecipeError(f"the sum needs {bits} bits and 64 are the most: raise aggregate.rounding")
        return bits

    def round_rows(self, rows: FloatArray, draw: UniformRows) -> IntArray:
        """Returns clients' rows in integers; `draw` makes the dither."""
        values = np.asarray(rows, np.float64) * self.scale
        if values.shape[1:] != (self.width,) or not np.isfinite(values).all():
            raise DataError(f"a row of shape {values.shape[1:]} must have {self.width} numbers: bound what is summed")
        np.clip(values, -_LARGEST, _LARGEST, out=values)
        return np.floor(values + draw(np.arange(len(values)), 0)).astype(np.int64)

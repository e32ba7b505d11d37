"""Rounding for rows of many records, where the unit is one record of them: a common dither, and no norm to hold to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.aggregate.integers import UniformRows
from sordino.errors import DataError, RecipeError
from sordino.events import Skellam
from sordino.types import Adjacency, FloatArray, IntArray

SUMS_ARE_EXACT = (
    "a client's sum over its records is made in single precision and taken as exact: declare public.most_records to "
    "have its rounding charged"
)
"""The certificate's remark where the unit is a record, sums are secure, and nobody said how many a client holds."""

_ROUNDOFF = 2.0**-24  # of single precision


@dataclass(frozen=True)
class Dither:
    """Rounds v·scale up or down at random, entry by entry; a record of at most clip_norm then changes little more.

    **Formal guarantees**: let x and x + Δ be a client's row without and with a record, ‖Δ‖₂ ≤ clip_norm, and U the
    dither: both are rounded to ⌊γx + U⌋ and ⌊γ(x + Δ) + U⌋ with γ = scale. Given U the entries differ by less than
    γ|Δ_j| + 1, so L2 by at most γ·clip_norm + √d and L1 by at most √d·γ·clip_norm + d (and by the square of the former,
    since |z| ≤ z² for integers). U is drawn apart from the data, and telling it to the observer as well can only help
    him: the sensitivities hold for the release (quasi-convexity of the divergences). Rows themselves may be of any
    norm. A row is not x, though, but a sum in single precision: with m records of norm ≤ clip_norm, each scaled and
    added in any order, it is off by at most γ_(m+1)·m·clip_norm in L2, γ_k = k·u/(1 − k·u), u = 2^-24 (each entry by
    γ_(m+1)·Σ_r|g_rj|, and ‖Σ_r|g_r|‖₂ ≤ m·clip_norm). With a record and without are both off: `slack` is twice that,
    in units of clip_norm, and is charged if the most records of a row are declared (`each`).
    **Edge cases**: rows that are not finite are refused. Without `each`, sums are taken as exact (`SUMS_ARE_EXACT`).
    **Reference**: subtractive dithering as in Kairouz, Liu, Steinke (2021), section 4, without conditioning; Higham
    (2002), "Accuracy and Stability of Numerical Algorithms", sections 3.1 and 4.2, for γ_k and sums in any order.
    """

    width: int
    clip_norm: float
    scale: float
    records: int
    """Most records whose vectors can be in one sum: public, for the modulus alone."""
    each: int | None = None
    """Most records whose vectors can be in one client's row, if that is declared (`public.most_records`)."""

    def __post_init__(self) -> None:
        if self.slack > 0.5:
            raise RecipeError(
                f"public.most_records is {self.each}: a client's sum of so many records in single precision may be off "
                "by more than half of one of them; hold fewer records at a client, or take another trust"
            )

    @classmethod
    def fine(
        cls, width: int, clip_norm: float, records: int, inflation: float = 0.01, each: int | None = None
    ) -> Dither:
        """Returns the coarsest rounding that raises the L2 sensitivity by at most this share (and `slack`)."""
        return cls(width, clip_norm, math.sqrt(width) / (inflation * clip_norm), records, each)

    @property
    def slack(self) -> float:
        """By how much of clip_norm two sums in single precision can differ more than the record between them."""
        terms = (self.each or 0) + 1
        error = terms * _ROUNDOFF / (1 - terms * _ROUNDOFF) if terms * _ROUNDOFF < 1 else math.inf
        return 2 * error * self.each if self.each else 0.0

    def event(self, variance: float, adjacency: Adjacency = "add_remove") -> Skellam:
        """Returns what the release of a sum with Skellam noise of this variance (in integers) does to one record."""
        if adjacency == "replace":
            raise RecipeError("records come and go one at a time in a secure sum: use adjacency add_remove")
        length, root = self.clip_norm * (1 + self.slack) * self.scale, math.sqrt(self.width)
        l2 = length + root
        return Skellam(variance, l2, min(root * length + self.width, l2**2))

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
        if values.shape[1:] != (self.width,) or not (np.abs(values) < 2.0**62).all():
            raise DataError(
                f"a row of shape {values.shape[1:]} must have {self.width} finite entries before it is rounded"
            )
        return np.floor(values + draw(np.arange(len(values)), 0)).astype(np.int64)

    def round_row(self, row: FloatArray, generator: np.random.Generator) -> IntArray:
        """Returns one client's row: as `round_rows`."""
        one: IntArray = self.round_rows(np.asarray(row)[None], lambda _, __: generator.random(self.width)[None])[0]
        return one

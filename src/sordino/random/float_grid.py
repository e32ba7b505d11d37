"""From floats to integers of a bounded norm, and back: the grid on which a certified release is made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sordino.errors import DataError, RecipeError
from sordino.random.rounded import LARGEST, Integers
from sordino.types import Adjacency, BoolArray, FloatArray

FINEST_NOISE = 2.0**31
"""Steps in a standard deviation, at most: with more, too many draws of the noise would need exact arithmetic."""

_LONGEST = 2.0**41
_BLOCK = 2**16
"""Entries that are rounded at once, in whole rows."""
_COLUMNS = 2**13
"""Of a row at once: inner products of over 10,000 entries are shared out by the library over threads, which spin."""


@dataclass(frozen=True)
class FloatGrid:
    """Multiples of a power of two, as integers, whose vectors have at most the norm that was promised for the floats.

    A row is shortened to norm ≤ reach, divided by the step and rounded to the nearest integers. Rounding moves each of
    d entries by at most half a step, so the vector by at most √d/2 steps in L2 and d/2 in L1; reach = bound − that. So
    the integers' norm is at most bound/step, which is then checked in exact arithmetic. (Rounding towards zero would
    need no room, as it raises no norm, but errs twice as far and always in one direction.)

    **Formal guarantees**: for every row of finite floats, ‖to_integers(row)‖ · step ≤ bound, whatever floating point
    did before; bound and noise divide by the step without error (a power of two), so the noise multiplier on the grid
    is the one of the recipe, to the bit. Add noise with `add_gaussian(…, grid.in_steps(stddev), …)`.
    **Edge cases**: rows that are not finite are refused; a row that fails the check is rounded towards zero instead,
    and if that fails, too, released as zeros.

    Attributes:
        width: entries of a row.
        bound: the norm bound C of a row, which is its sensitivity under `zero_out`.
        exponent: the step is 2^exponent.
        order: of the norm, 2 or 1.
    """

    width: int
    bound: float
    exponent: int
    order: Literal[1, 2] = 2

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0 and self.width > 0):
            raise RecipeError(f"the grid's bound is {self.bound} and its width {self.width}: both must be above 0")
        if not (abs(self.exponent) <= 900 and self.loss < 0.5 and self.length <= _LONGEST):
            raise RecipeError(
                f"the grid's step 2^{self.exponent} does not suit a bound of {self.bound} over {self.width} entries: "
                f"choose a step of 2^-900 to 2^900, between 2^-41 of the bound and {0.5 / self._share:.3g} of it"
            )

    @classmethod
    def fitting(
        cls, width: int, bound: float, stddev: float, order: Literal[1, 2] = 2, loss: float = 1e-5
    ) -> FloatGrid:
        """Returns the coarsest grid that shortens rows, and adds variance to the noise, by at most this share.

        Where the noise would be more than 2^31 such steps wide, or the bound 2^41, the grid is coarser: see its `loss`.
        So it is where rows then fit into 32-bit integers, which are faster, and the loss stays below ten times as much,
        or below this share of the noise's stddev and 10^-3: beside such noise nobody can miss it.
        """
        if not (math.isfinite(stddev) and stddev >= 0):
            raise RecipeError(f"the noise's stddev is {stddev}: it must be finite and not negative")
        if not (math.isfinite(bound) and bound > 0 and width > 0):
            raise RecipeError(f"the grid's bound is {bound} and its width {width}: both must be above 0")
        share = math.sqrt(width) / 2 if order == 2 else width / 2
        fine = loss * bound / share
        if stddev:
            fine = min(fine, stddev * math.sqrt(12 * loss))
        floor = max(stddev / FINEST_NOISE, bound / _LONGEST)
        exponent = max(math.floor(math.log2(fine)), math.ceil(math.log2(floor)))
        small = math.ceil(math.log2(max(stddev / LARGEST[np.dtype(np.int32)], bound / 2.0**30)))
        most = max(10 * loss, min(1e-3, loss * stddev / bound)) * bound / share
        most = min(most, stddev / 128) if stddev else most  # noise of few steps would be wider than it should be
        return cls(width, bound, small if exponent < small <= math.log2(most) else exponent, order)

    @property
    def step(self) -> float:
        """The distance of neighbouring values."""
        return math.ldexp(1.0, self.exponent)

    @property
    def length(self) -> float:
        """The bound in steps."""
        return math.ldexp(self.bound, -self.exponent)

    @property
    def _share(self) -> float:
        return math.sqrt(self.width) / 2 if self.order == 2 else self.width / 2

    @property
    def loss(self) -> float:
        """By what share of the bound a row may be shortened to make room for rounding."""
        return self._share / self.length

    @cached_property
    def squared_norm(self) -> int:
        """The most that the squared L2 norm of a row of integers can be."""
        return math.floor(Fraction(self.length) ** 2)

    def l2_sensitivity(self, adjacency: Adjacency = "zero_out") -> float:
        """Returns how far one row can move a sum of rows in L2, in steps."""
        return self.length * (2 if adjacency == "replace" else 1)

    def l1_sensitivity(self, adjacency: Adjacency = "zero_out") -> int:
        """Returns how far one row can move a sum of rows in L1, in steps: |z| ≤ z² for integers, and ≤ √d in L2."""
        if self.order == 1:
            most = math.floor(self.length)
        else:
            most = min(self.squared_norm, math.isqrt(self.squared_norm * self.width))
        return most * (2 if adjacency == "replace" else 1)

    def in_steps(self, value: float) -> float:
        """Returns a length (the noise's stddev, say) in steps, exactly."""
        return math.ldexp(value, -self.exponent)

    def dtype(self, stddev: float) -> np.dtype[np.int32] | np.dtype[np.int64]:
        """Returns the integers that hold a row with noise of this stddev (in the units of the rows)."""
        small = np.dtype(np.int32)
        return small if self.length <= 2.0**30 and self.in_steps(stddev) <= LARGEST[small] else np.dtype(np.int64)

    def to_floats(self, total: Integers) -> FloatArray:
        """Returns integers, or their sum, in the units of the rows."""
        return total.astype(np.float64) * self.step

    def to_integers(
        self, rows: Tensor | NDArray[np.floating], dtype: np.dtype[np.int32] | np.dtype[np.int64] | None = None
    ) -> Integers:
        """Returns rows of floats as rows of integers whose norm is at most the bound.

        Args:
            rows: floats `[n, width]`.
            dtype: of the integers, as `dtype` advises; int64 unless told.
        """
        values = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
        if values.ndim != 2 or values.shape[1] != self.width:
            raise DataError(f"rows of shape {values.shape} do not suit a grid of {self.width} entries a row")
        out = np.empty(values.shape, dtype or np.int64)
        high = max(1, _BLOCK // self.width)
        for first in range(0, len(values), high):
            self._fill(out[first : first + high], values[first : first + high])
        return out

    def _fill(self, out: Integers, rows: NDArray[np.floating]) -> None:
        factors = self._factors(rows)
        for index in np.flatnonzero(~self._round(out, rows, factors, np.rint)):
            one = slice(index, index + 1)
            if not self._round(out[one], rows[one], factors[one], np.trunc)[0]:
                out[one] = 0

    def _factors(self, rows: NDArray[np.floating]) -> FloatArray:
        """Returns by what each row is multiplied before it is rounded."""
        norms = np.zeros(len(rows))
        # squares of single precision neither overflow nor vanish in double precision
        single = rows.dtype == np.float32 and abs(self.exponent) < 200
        for columns in _columns(self.width):
            with np.errstate(over="ignore", invalid="ignore"):
                values = rows[:, columns].astype(np.float64)
                if not single:
                    values *= 1 / self.step
                norms += _power_sums(values, self.order)
        if single:
            norms *= self.step**-self.order
        if not np.isfinite(norms).all():
            raise DataError(
                "a row has entries that are not finite, or too large to square: clip it before it is rounded"
            )
        norms = np.sqrt(norms) if self.order == 2 else norms
        reach = self.length * (1 - self.loss)
        return reach / np.maximum(norms, reach) / self.step

    def _round(self, out: Integers, rows: NDArray[np.floating], factors: FloatArray, how: np.ufunc) -> BoolArray:
        """Rounds rows, and returns whose norm is proved to be within the bound."""
        sums = np.zeros(len(rows))
        for columns in _columns(self.width):
            values = rows[:, columns].astype(np.float64)
            values *= factors[:, None]
            how(values, out=values)
            out[:, columns] = values
            sums += _power_sums(values, self.order)
        return sums <= self._certain

    @cached_property
    def _certain(self) -> float:
        """A float sum of integers (or of their squares) up to this proves that the bound holds.

        Sums of integers below 2^52 are exact in floats; others err by less than 2^-53 of them for each operation.
        """
        if self.order == 1:
            return math.floor(self.length)  # at most 2^41
        exact = self.squared_norm < 2**52
        return float(self.squared_norm) * (1.0 if exact else 1 - (self.width + 4) * 2.0**-52)


def _columns(width: int) -> Iterator[slice]:
    return (slice(first, first + _COLUMNS) for first in range(0, width, _COLUMNS))


def _power_sums(values: FloatArray, order: int) -> FloatArray:
    """Returns each row's sum of squares, or of sizes."""
    sums: FloatArray = np.vecdot(values, values) if order == 2 else np.abs(values).sum(axis=1)
    return sums

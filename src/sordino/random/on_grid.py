"""Contributions with exact noise: rounded to a grid, noised in integers, and only then floats again.

A grid's step is a power of two that follows from public numbers (width, bound, noise multiplier). Values are rounded to
multiples of it before noise is added, and the noise is Gaussian or Laplace noise rounded to the same grid, with its
exact law (`random/rounded.py`): x + round(N) = round(x + N) for integers x, so a release is a function of the exact
continuous mechanism on integer vectors, and costs what that costs. What happens to the integers later, the conversion
to single precision included, is post-processing.

Two roundings, by what bounds the values:

* *rows*, each of a norm that is bounded: shortened by at most 10⁻⁴ (beside a noise multiplier z above 10 by 10⁻⁵·z, and
  10⁻³ at most, unless noise would be wider than 2³¹ steps) and rounded, so that the integers keep the bound, to the bit
  (`random/float_grid.py`). Whatever floating point did before does not matter.
* *sums*, whose norm is anything, while one unit moves them by at most `norm`: rounded to the nearest multiple of the
  step h. |round(a) − round(b)| < |a − b| + 1 in each of d coordinates, so one unit moves the rounded sum by at most
  norm + √d·h, and the noise is scaled by that: the multiplier is the one that is charged. The step is so fine that √d·h
  is below 4·10⁻⁶ of the norm, unless noise would be wider than 2³¹ steps.

**Floats on the way**: adding up floats is not associative, so a unit that comes or goes also changes how the others are
rounded before they get here. Sums *within* a client, or over clients whose updates are never in memory, are made so
that their rounding is within the norm already (`train/gradients.py`). Sums of n rows that hold N units together, in
double precision, are off by at most n·N·2⁻⁵³ of the norm in each of two neighbours, whatever the order: noise is scaled
by 4·10⁻⁶ of the norm for that, which covers n·N = 1.8·10¹⁰. So of rows of one unit (clients) 10⁵ may be added up
(`MOST_ROWS`), and nobody may add up more. **Assumed** of rows that hold more records than that (10⁵ clients with over
180,000 records, say): that the library adds up in stages, as it does, which is off by less than 10²·N·2⁻⁵³.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sordino.errors import SordinoError
from sordino.random.float_grid import FINEST_NOISE, FloatGrid
from sordino.random.keystream import Keys
from sordino.random.noise import add_gaussian, add_laplace
from sordino.random.rounded import Integers

_SHARE = 4e-6
_SUMMING = 4e-6
MOST_ROWS = 100_000
"""Most rows that are added up in double precision before they are rounded to a grid."""
_FAR = 2.0**51
_COUNT_EXPONENT = -20


@dataclass(frozen=True)
class SumGrid:
    """Multiples of a power of two for sums of any norm, one unit of which contributes at most `norm`.

    **Formal guarantees**: one unit moves a rounded sum by at most `bound`, and noise of multiplier · bound, in steps,
    hides it as a Gaussian of exactly that multiplier. Sums beyond 2⁵¹ steps stay there, which moves no two of them
    apart.
    """

    width: int
    norm: float
    exponent: int
    order: Literal[1, 2] = 2
    """Of the norm; rounding moves d entries by √d steps in L2, and by d in L1."""

    @classmethod
    def fitting(cls, width: int, norm: float, multiplier: float, order: Literal[1, 2] = 2) -> SumGrid:
        """Returns the grid for noise of this multiplier."""
        exponent = math.floor(math.log2(_SHARE * norm / width ** (1 / order)))
        if multiplier * norm / FINEST_NOISE > 0:
            exponent = max(exponent, math.ceil(math.log2(multiplier * norm / FINEST_NOISE)))
        return cls(width, norm, exponent, order)

    @property
    def bound(self) -> float:
        """How far one unit moves a rounded sum, at most."""
        rounding: float = self.width ** (1 / self.order) * math.ldexp(1.0, self.exponent)
        return self.norm * (1 + _SUMMING) + rounding

    def to_integers(self, rows: Tensor) -> Integers:
        """Returns sums in steps, `[n, width]`.

        Raises:
            SordinoError: a sum is not a number, which no bounded contribution makes it: nothing is released.
        """
        values = rows.detach().cpu().double().numpy() * math.ldexp(1.0, -self.exponent)
        lowest, highest = values.min(initial=0), values.max(initial=0)
        if np.isnan(lowest):
            raise SordinoError("a sum of contributions is not a number: bound what clients contribute (mechanism)")
        if lowest < -_FAR or highest > _FAR:
            np.clip(values, -_FAR, _FAR, out=values)
        return np.rint(values, out=values).astype(np.int64)


def noisy_rows(rows: Tensor, norm: float, multiplier: float, keys: Keys, order: Literal[1, 2] = 2) -> Tensor:
    """Returns rows, each of at most this norm, rounded and with noise of multiplier · norm, in the rows' own type.

    **Formal guarantees**: for each row, those of the Gaussian mechanism of this multiplier (or, for an L1 norm, of the
    Laplace mechanism).
    **Edge cases**: a multiplier of 0 rounds alone; rows that are longer than the norm are shortened.
    """
    scale = multiplier * norm
    grid = FloatGrid.fitting(rows.shape[1], norm, scale, order)
    integers = grid.to_integers(rows, grid.dtype(scale))
    (add_laplace if order == 1 else add_gaussian)(integers, grid.in_steps(scale), keys)
    return to_floats(integers, grid.exponent, rows.dtype)


def noisy_sums(
    rows: Tensor,
    norm: float,
    multiplier: float,
    keys: Keys,
    order: Literal[1, 2] = 2,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Returns sums, one unit of which contributes at most `norm`, rounded and with noise of this multiplier."""
    grid = SumGrid.fitting(rows.shape[1], norm, multiplier, order)
    add = add_laplace if order == 1 else add_gaussian
    noisy = add(grid.to_integers(rows), math.ldexp(multiplier * grid.bound, -grid.exponent), keys)
    return to_floats(noisy, grid.exponent, dtype or rows.dtype)


def noisy_counts(counts: Tensor, stddev: float, keys: Keys) -> Tensor:
    """Returns counts, or halves of them, with Gaussian noise on a grid of 2^−20, in double precision.

    **Formal guarantees**: counts are multiples of the step, so nothing is rounded and the sensitivity is theirs.
    """
    exponent = _COUNT_EXPONENT
    if stddev > 0:
        exponent = min(-1, max(exponent, math.ceil(math.log2(stddev / FINEST_NOISE))))
    steps = np.rint(counts.double().numpy() * math.ldexp(1.0, -exponent)).astype(np.int64)
    return to_floats(add_gaussian(steps, math.ldexp(stddev, -exponent), keys), exponent, torch.float64)


def to_floats(integers: Integers, exponent: int, dtype: torch.dtype) -> Tensor:
    """Returns steps in the units of the rows: rounded once, to the type, and multiplied by a power of two."""
    return torch.from_numpy(integers).to(dtype).mul_(math.ldexp(1.0, exponent))

"""Gaussian and LaplaceDraws draws in double precision, each with a radius within which the true draw lies.

Errors assumed of the float library: 8 units in the last place for log and tan (it promises 4); the other operations are
rounded correctly by IEEE 754. Write u = 2^−53 for that rounding, L = −2 ln U for the squared Gaussian length R².

    U       the first 63 bits of a word, converted: relative error u, and the bits to come add 2^−63
    L       2·(u + 2^−63/U) + 16u·L             hence R: that over 2R, plus u·R for the root
    angle   a = πV, |a| ≤ π/2: 4u·|a| ≤ 7u, and t = tan a with relative error 16u moves a by 16u·t/(1 + t²) ≤ 8u
    draw    x = 2R/(1 + t²) − R = R·cos 2a and y = 2R/(1 + t²) · t = R·sin 2a: R times twice the angle's 15u, plus 10u·R
            for the arithmetic (no intermediate exceeds 2R); with R's own error,
            |δ| ≤ (u + 2^−63/U)/R + 8u·R + u·R + 30u·R + 10u·R

which is below (u + 2^−63/U)/R + 64u·R. For U in [2^−17, 1 − 2^−17], R is in [2^−8, 4.86] and this is below 2^−44.
Where L is so small that its error is no small share of it, R errs by at most that error over R, twice the above.
A LaplaceDraws draw −ln U errs by at most u + 2^−63/U + 16u·|ln U| + u·|ln U|; for U ≥ 2^−17 that is below 2^−44, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from sordino.random import exact
from sordino.types import FloatArray, IntArray, Words

More = Callable[[int, int, int], int]
"""`more(row, place, step)`: the next 64 bits, after step·64 earlier ones, of the number whose word is at that place."""

RADIUS = 2.0**-44
"""Within how much of a draw of scale 1 its fast value lies."""

GROUP = 2**16
"""Words that are worked on at once, so that they stay in the cache; an even number."""

_LOWEST, _HIGHEST = 2.0**-17, 1 - 2.0**-17
_UNIT = 2.0**-53
_SIZE = np.uint64(2**63 - 1)


@dataclass(frozen=True)
class Gaussian:
    """Gaussian draws from pairs of words: one is the length, the other the angle.

    A row of words (an even number) is cut into groups of GROUP, the last one shorter. Words i and i + h of a group of
    2h make its draws i and i + h: the cosine and the sine. Halves, not neighbours, for the sake of contiguous memory.
    """

    stddev: float
    words: Words
    more: More

    def fast(self, words: Words) -> FloatArray:
        """Returns the draws of rows of one group, NaN where they may err by more than RADIUS · stddev."""
        half = words.shape[1] // 2
        uniform = _uniform(words[:, :half])
        low, high = uniform.min(), uniform.max()
        outside = (uniform < _LOWEST) | (uniform > _HIGHEST) if low < _LOWEST or high > _HIGHEST else None
        length, twice, tangent = _polar(uniform, words[:, half:], self.stddev)
        values = np.empty(words.shape)
        np.subtract(twice, length, out=values[:, :half])
        np.multiply(twice, tangent, out=values[:, half:])
        if outside is not None:
            values[:, :half][outside] = values[:, half:][outside] = np.nan
        return values

    def close(self, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """Returns single draws, and a radius for each."""
        first, second = self._places(columns)
        uniform = _uniform(self.words[rows, first])
        length, twice, tangent = _polar(uniform.copy(), self.words[rows, second], self.stddev)
        values = np.where(columns == first, twice - length, twice * tangent)
        # |√a − √b| ≤ |a − b|/√b for all a, b ≥ 0; and −2 ln 1 is −0, whose root must not turn the bound's sign
        error = 2 * (_UNIT + 2.0**-63 / uniform) * self.stddev**2 / np.abs(length)
        return values, error + 64 * _UNIT * np.abs(length)

    def _places(self, columns: IntArray) -> tuple[IntArray, IntArray]:
        """Returns where the words of a draw stand: its length's and its angle's."""
        start = columns - columns % GROUP
        half = np.minimum(GROUP, self.words.shape[1] - start) // 2
        first = start + (columns - start) % half
        return first, first + half

    def exact(self, row: int, column: int) -> int:
        """Returns one draw, rounded, with as many further bits as it takes."""
        first, second = (int(place) for place in self._places(np.asarray(column)))
        radius, angle = int(self.words[row, first]), int(self.words[row, second].astype(np.int64))
        extend = partial(self.more, row, first), partial(self.more, row, second)
        return exact.gaussian(Fraction(self.stddev), radius, angle, extend, sine=column == second)


@dataclass(frozen=True)
class LaplaceDraws:
    """Laplace draws, one a word: its first bit is the sign, the others the size."""

    scale: float
    words: Words
    more: More

    def fast(self, words: Words) -> FloatArray:
        """Returns the draws of a block of words, NaN where they may err by more than RADIUS · scale."""
        uniform = _size(words)
        values = np.log(uniform)
        values *= self.scale
        np.copysign(values, words.view(np.int64), out=values)
        if uniform.min() < _LOWEST:
            values[uniform < _LOWEST] = np.nan
        return values

    def close(self, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """Returns single draws, and a radius for each."""
        words = self.words[rows, columns]
        uniform = _size(words)
        values = np.log(uniform)
        radius = _UNIT + 2.0**-63 / uniform - 17 * _UNIT * values
        return np.copysign(values * self.scale, words.view(np.int64)), radius * self.scale

    def exact(self, row: int, column: int) -> int:
        """Returns one draw, rounded, with as many further bits as it takes."""
        word = int(self.words[row, column])
        size = exact.laplace(Fraction(self.scale), word & int(_SIZE), partial(self.more, row, column))
        return -size if word > int(_SIZE) else size


def _uniform(words: Words) -> FloatArray:
    """Returns the uniform number in the first 63 bits of a word: signed words convert twice as fast."""
    uniform = (words >> np.uint64(1)).view(np.int64).astype(np.float64)
    uniform *= 2.0**-63
    return uniform


def _polar(uniform: FloatArray, angles: Words, stddev: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns the length R = stddev · √(−2 ln U), in U's place, 2R/(1 + t²), and t = tan πV, half the angle's."""
    length = np.log(uniform, out=uniform)
    length *= -2.0 * stddev**2  # of which the root's error is the same as with stddev outside
    np.sqrt(length, out=length)
    tangent = angles.view(np.int64).astype(np.float64)
    tangent *= math.pi * 2.0**-64
    np.tan(tangent, out=tangent)
    twice = tangent * tangent
    twice *= 0.5
    twice += 0.5
    np.divide(length, twice, out=twice)
    return length, twice, tangent


def _size(words: Words) -> FloatArray:
    """Returns the uniform number in all bits of a word but the first."""
    uniform = (words & _SIZE).view(np.int64).astype(np.float64)
    uniform *= 2.0**-63
    return uniform

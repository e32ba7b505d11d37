"""Exact sampling from a law on the integers by inverting its distribution function, bit by bit, as far as it takes.

No floating point is involved. A law is given by the exact ratios of neighbouring probabilities. Integer arithmetic
turns these into an interval around each value of the distribution function, and random bits into an interval around a
uniform number; a sample is accepted when the two are disjoint, else both intervals are refined.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from sordino.random.float_draws import More
from sordino.types import IntArray, Words

Bits = Callable[[int], bytes]
"""A source of so many independent, uniform random bytes."""

CountArray = NDArray[np.int32]

_WORD = 64
_GUARD = 64
_PREFIX = 16


@dataclass(frozen=True)
class PoissonLaw:
    """Counts of mean λ."""

    mean: Fraction
    highest: int | None = None

    @property
    def mode(self) -> int:
        """A value of greatest probability."""
        return int(self.mean)

    def ratio(self, k: int) -> tuple[int, int]:
        """Returns p(k+1)/p(k) as numerator and denominator."""
        return self.mean.numerator, self.mean.denominator * (k + 1)


@dataclass(frozen=True)
class BinomialLaw:
    """How many of `highest` coins show heads, each with probability `chance` (strictly between 0 and 1)."""

    highest: int
    chance: Fraction

    @property
    def mode(self) -> int:
        """A value of greatest probability."""
        return int((self.highest + 1) * self.chance)

    def ratio(self, k: int) -> tuple[int, int]:
        """Returns p(k+1)/p(k) as numerator and denominator."""
        heads = self.chance.numerator
        return (self.highest - k) * heads, (k + 1) * (self.chance.denominator - heads)


Law = PoissonLaw | BinomialLaw


@dataclass(frozen=True)
class _Partial:
    """Sums of fixed-point weights: P(X ≤ first + i) lies within [sums[i], sums[i] + error] / [total, total + error]."""

    first: int
    sums: list[int]
    total: int
    error: int


@lru_cache(maxsize=64)
def _partial(law: Law, bits: int) -> _Partial:
    """Sums the weights of a law, relative to its mode, in units of 2^-bits.

    A weight is its neighbour's (towards the mode) times a ratio ≤ 1, rounded down: at distance j from the mode it falls
    short of the truth by at most j units. Where weights round to zero, the rest is below a geometric series: both laws
    are log-concave, so ratios go on falling.
    """
    up, above = _side(law, bits, +1)
    down, below = _side(law, bits, -1)
    weights = down[:0:-1] + up
    error = above + below + sum(range(len(up))) + sum(range(len(down)))
    first = law.mode - len(down) + 1
    total = sum(weights)
    if first + len(weights) - 1 == law.highest:
        weights.pop()  # P(X ≤ highest) is 1 exactly: there is nothing to compare with
    if first > 0:
        first, weights = first - 1, [0, *weights]
    return _Partial(first, _running(weights), total, error)


def _side(law: Law, bits: int, step: int) -> tuple[list[int], int]:
    """Returns the weights from the mode outwards, and a bound on the sum of all that lie further out."""
    weights, k, weight = list[int](), law.mode, 1 << bits
    while weight:
        weights.append(weight)
        if k == (law.highest if step > 0 else 0):
            return weights, 0
        rise, fall = law.ratio(k) if step > 0 else law.ratio(k - 1)[::-1]
        weight, k = weight * rise // fall, k + step
    # the first weight left out is at most its distance in units; later ones fall at least as fast as this ratio
    return weights, len(weights) * fall // (fall - rise) + 1


def _running(weights: list[int]) -> list[int]:
    sums, total = list[int](), 0
    for weight in weights:
        total += weight
        sums.append(total)
    return sums


def _resolve(law: Law, word: int, bits: Bits) -> int:
    """Decides a sample that the table left open: appends random bits to its word until only one value is possible."""
    depth = _WORD
    while True:
        word, depth = word << _WORD | int.from_bytes(bits(_WORD // 8), "little"), depth + _WORD
        part = _partial(law, depth + _GUARD)
        # U in [word, word + 1)·2^-depth is certainly ≥ P(X ≤ k), or certainly below it
        least = bisect_left(part.sums, True, key=lambda s: word * part.total < (s + part.error) << depth)
        most = bisect_left(part.sums, True, key=lambda s: (word + 1) * (part.total + part.error) <= s << depth)
        if least == most:
            return part.first + most


class InversionTable:
    """A law, ready to be sampled in bulk.

    The first 16 bits of a uniform number mostly decide the sample by one look-up; where they do not, 48 more bits are
    compared with 64-bit bounds below and above each value of the distribution function; where these do not (of the
    order of once in 2^50 samples), `_resolve` goes on, as deep as it takes.

    **Formal guarantees**: given independent uniform bits, samples are independent and follow the law exactly: a value
    k is returned only when every U that begins with the drawn bits has P(X < k) ≤ U < P(X ≤ k).
    **Edge cases**: samples are int32; laws whose samples could exceed it are refused by the callers.
    **Reference**: the inversion is Devroye (1986), III.2, with lazily drawn bits as in Knuth and Yao (1976).
    """

    def __init__(self, law: Law) -> None:
        self.law = law
        part = _partial(law, _WORD + _GUARD)
        top = (1 << _WORD) - 1
        sure = [(s << _WORD) // (part.total + part.error) for s in part.sums]
        barely = [min(((s + part.error) << _WORD) // part.total, top) for s in part.sums]
        self._first = part.first
        self._sure, self._barely = np.array(sure, np.uint64), np.array(barely, np.uint64)
        heads = np.arange(1 << _PREFIX, dtype=np.uint64) << np.uint64(_WORD - _PREFIX)
        least, _ = self._bracket(heads)
        _, most = self._bracket(heads | np.uint64((1 << (_WORD - _PREFIX)) - 1))
        self._decided = np.where(least == most, least + part.first, -1).astype(np.int32)

    def _bracket(self, words: NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
        """Returns how many values of the distribution function each U exceeds: certainly, and at most."""
        return np.searchsorted(self._barely, words, "left"), np.searchsorted(self._sure, words, "right")

    def invert(self, words: Words, more: More) -> CountArray:
        """Returns a sample for each word, the first 64 bits of a uniform number; `more` knows the further bits."""
        samples: CountArray = self._decided[words >> np.uint64(_WORD - _PREFIX)]
        rows, columns = np.nonzero(samples < 0)
        if rows.size:
            open_ = words[rows, columns]
            least, most = self._bracket(open_)
            samples[rows, columns] = least + self._first
            for i in np.flatnonzero(least != most):
                row, column = int(rows[i]), int(columns[i])
                samples[row, column] = _resolve(self.law, int(open_[i]), _following(more, row, column))
        return samples

    def draw(self, count: int, bits: Bits) -> CountArray:
        """Returns independent samples, int32 `[count]`."""
        prefix = np.frombuffer(bits(2 * count), np.uint16)
        samples = self._decided[prefix]
        (open_,) = np.nonzero(samples < 0)
        if open_.size:
            tail = np.frombuffer(bits(8 * open_.size), np.uint64) >> np.uint64(_PREFIX)
            words = prefix[open_].astype(np.uint64) << np.uint64(_WORD - _PREFIX) | tail
            least, most = self._bracket(words)
            samples[open_] = least + self._first
            for i in np.flatnonzero(least != most):
                samples[open_[i]] = _resolve(self.law, int(words[i]), bits)
        return samples


def _following(more: More, row: int, column: int) -> Bits:
    steps = count()
    return lambda _: more(row, column, next(steps)).to_bytes(_WORD // 8, "little")


@lru_cache(maxsize=256)
def table(law: Law) -> InversionTable:
    """Returns the law's table, made once."""
    return InversionTable(law)

"""Skellam noise, the difference of two Poisson counts: exact, in bulk, shared out over clients, and split again."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.errors import RecipeError
from sordino.random.float_draws import More
from sordino.random.inversion import BinomialLaw, Bits, CountArray, PoissonLaw, table
from sordino.random.keystream import Keys, Keystreams, SharedKeystream, streams_of
from sordino.random.streams import Randomness
from sordino.types import IntArray

_LARGEST_TABLE = 1 << 22
_LARGEST_VARIANCE = 1 << 30
_BLOCK = 1 << 16


@dataclass(frozen=True)
class SkellamNoise:
    """A Skellam vector by the two counts that made it, which its owner keeps: they can be split, it cannot."""

    plus: CountArray
    minus: CountArray

    @property
    def values(self) -> IntArray:
        """The noise itself, `plus − minus`."""
        return self.plus.astype(np.int64) - self.minus


def random_bits(randomness: Randomness, purpose: str, round_: int, client: int) -> Bits:
    """Returns a source of random bytes: a keyed stream in simulation, the operating system's own in deployment."""
    return randomness.generator(purpose, round_, client).bytes if randomness.simulation else os.urandom


def poisson(mean: Fraction | float, count: int, bits: Bits) -> CountArray:
    """Returns exact, independent Poisson counts, int32 `[count]`; large means are sums of smaller ones."""
    pieces = math.ceil(mean / _LARGEST_TABLE)
    total = np.zeros(count, np.int32)
    for _ in range(pieces):
        total += table(PoissonLaw(Fraction(mean) / pieces)).draw(count, bits)
    return total


def skellam(variance: Fraction | float, count: int, bits: Bits) -> SkellamNoise:
    """Returns Skellam noise of this variance on each of `count` coordinates.

    **Formal guarantees**: exactly the law (see `inversion.Table`), for the variance as it is given, to its last bit.
    **Edge cases**: variance 0 is no noise; a variance above 2^30 would overflow and is refused.
    """
    _require_variance(variance)
    mean = Fraction(variance) / 2
    return SkellamNoise(poisson(mean, count, bits), poisson(mean, count, bits))


def skellam_rows(variance: Fraction | float, width: int, keys: Keys) -> CountArray:
    """Returns the two counts of Skellam noise for several clients, int32 `[clients, 2, width]`, each from its own key.

    **Formal guarantees**: those of `skellam`; company, order and chunking of the clients change no draw.
    """
    _require_variance(variance)
    streams, even = streams_of(keys), width + width % 2
    mean, counts = Fraction(variance) / 2, np.zeros((len(streams), 2, width), np.int32)
    pieces, high = math.ceil(mean / _LARGEST_TABLE), max(1, _BLOCK // max(1, even))
    for first in range(0, len(streams), high):
        rows = np.arange(first, min(first + high, len(streams)))
        for turn in range(2 * pieces):
            law = table(PoissonLaw(mean / pieces))
            for start in range(0, even, _BLOCK):
                words = np.empty((len(rows), min(_BLOCK, even - start)), np.uint64)
                place = turn * even + start
                streams.fill(words, rows, place)
                into = counts[rows[0] : rows[-1] + 1, turn % 2, start : start + words.shape[1]]
                into += law.invert(words[:, : into.shape[1]], _further(streams, first, place))
    return counts


def _further(streams: Keystreams | SharedKeystream, first: int, place: int) -> More:
    return lambda row, column, step: streams.further(first + row, place + column, step)


def _require_variance(variance: Fraction | float) -> None:
    if not 0 <= variance <= _LARGEST_VARIANCE:
        raise RecipeError(
            f"a Skellam variance of {float(variance):g} is outside [0, 2^30]: raise aggregate.rounding, or set "
            "aggregate.kind to plain"
        )


def binomial(counts: CountArray, chance: Fraction, bits: Bits) -> CountArray:
    """Returns, for each count, how many of it are kept when each one is kept with this chance: exact and independent.

    A count is the sum of the powers of two in its binary digits, so a draw is a sum of Binomial(2^j, chance) samples.
    """
    if chance >= 1:
        return counts.copy()
    kept = np.zeros_like(counts)
    if chance <= 0:
        return kept
    for j in range(int(counts.max(initial=0)).bit_length()):
        (has,) = np.nonzero(counts >> j & 1)
        kept[has] += table(BinomialLaw(1 << j, chance)).draw(len(has), bits)
    return kept


@dataclass(frozen=True)
class SkellamShares:
    """SkellamNoise shares that sum to exactly `variance` over the survivors, however many of them there are.

    Each client draws e ~ Skellam(v_e), v_e = variance/(n_0 − c), for the smallest admissible cohort n_0 (of whom up to
    c collude with the server, and are not counted on). When n′ ≥ n_0 clients are known to have survived, it keeps each
    unit of its two Poisson counts with chance (n_0 − c)/(n′ − c): what is kept makes G, the rest R = e − G, and only R
    is revealed, which the server subtracts.

    **Formal guarantees**: thinning a Poisson(λ) count with chance p gives two *independent* counts, Poisson(pλ) and
    Poisson((1−p)λ): P(a kept, b not) = e^{−λ} λ^{a+b}/(a+b)! · C(a+b, a) p^a (1−p)^b = [e^{−pλ} (pλ)^a/a!] ·
    [e^{−(1−p)λ} ((1−p)λ)^b/b!]. So G ~ Skellam(variance/(n′ − c)) and R are independent, R is independent of the
    client's data too, and whoever learns R learns nothing of the noise that stays. Sums of independent Skellams are
    Skellam, so the n′ − c honest survivors leave exactly Skellam(variance). A client that vanishes before it reveals
    leaves its whole e: more noise, never less.
    **Edge cases**: fewer than n_0 survivors are refused; with n′ = n_0 nothing is removed (R = 0).
    **Reference**: Kingman (1993), "Poisson Processes", section 5.1; Agarwal, Kairouz, Liu (2021) for Skellam.
    """

    variance: float
    smallest_cohort: int
    colluders: int | Fraction = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.variance) and self.variance >= 0):
            raise RecipeError(f"the noise variance {self.variance} must be finite and at least 0")
        if not 0 <= self.colluders < self.smallest_cohort:
            raise RecipeError(
                f"{self.colluders} colluders of at least {self.smallest_cohort} clients leave nobody to add noise: "
                "raise the smallest cohort"
            )

    def share_variance(self, survivors: int | None = None) -> Fraction:
        """Returns the variance of one client's share: as drawn, or what stays of it with so many survivors."""
        cohort = self.smallest_cohort if survivors is None else survivors
        if cohort < self.smallest_cohort:
            raise RecipeError(
                f"{cohort} survivors are fewer than the {self.smallest_cohort} that the noise shares were drawn for: "
                "abort the round"
            )
        return Fraction(self.variance) / (cohort - self.colluders)

    def draw(self, width: int, bits: Bits) -> SkellamNoise:
        """Client side: returns the share to add before masking."""
        return skellam(self.share_variance(), width, bits)

    def removable(self, noise: SkellamNoise, survivors: int, bits: Bits) -> IntArray:
        """Client side, once: returns R, to be revealed and subtracted, now that the survivors are counted."""
        if self.variance == 0:
            return np.zeros(len(noise.plus), np.int64)
        stays = self.share_variance(survivors) / self.share_variance()
        plus, minus = (counts - binomial(counts, stays, bits) for counts in (noise.plus, noise.minus))
        return plus.astype(np.int64) - minus

"""From floats to integers that a secure sum can add, and back: clip → scale → round at random → modulo 2^b."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sordino.errors import DataError, RecipeError
from sordino.events import Skellam
from sordino.types import Adjacency, FloatArray, IntArray

UIntArray = NDArray[np.unsignedinteger]

_ATTEMPTS = 32

UniformRows = Callable[[IntArray, int], FloatArray]
"""Returns U[0, 1) numbers for these rows in this attempt (`random.keystream.uniform_rows`)."""


@dataclass(frozen=True)
class Grid:
    """The integer grid that clients round to: a value v becomes about v·scale, and its vector keeps a bounded norm.

    Every entry is rounded up or down at random, so that its mean is right; the vector is drawn again while its norm is
    above the bound. What is bounded is the rounded vector itself, checked in integers, so the sensitivity holds
    whatever floating point did before.

    **Formal guarantees**: ‖rounded‖₂² ≤ B = min{(C+√d)², C² + d/4 + √(2 ln(1/β))·(C + √d/2)}, C = clip_norm·scale;
    and ‖rounded‖₁ ≤ min(√(d·B), B), since |z| ≤ z² for integers. One draw is accepted with probability ≥ 1 − β, so the
    conditioning biases the mean by at most a share of about β.
    **Edge cases**: rows that are not finite are refused; after 32 refused draws a row is truncated towards zero, which
    never raises its norm; weights are applied before (a row of norm below clip_norm is not stretched).
    **Reference**: Kairouz, Liu, Steinke (2021), "The Distributed Discrete Gaussian Mechanism for Federated Learning
    with Secure Aggregation", section 4.1 (conditional rounding); Agarwal, Kairouz, Liu (2021) for the L1 bound.
    """

    width: int
    clip_norm: float
    scale: float
    bias: float = 1e-6

    def __post_init__(self) -> None:
        positive = {"width": self.width, "clip_norm": self.clip_norm, "scale": self.scale, "bias": self.bias}
        for name, value in positive.items():
            if not (math.isfinite(value) and value > 0):
                raise RecipeError(f"the grid's {name} is {value}: it must be finite and above 0")
        if self.bias >= 1 or self.clip_norm * self.scale + math.sqrt(self.width) >= 2**31:
            raise RecipeError(
                "the grid's bias must be below 1, and its vectors shorter than 2^31: choose a coarser scale"
            )

    @classmethod
    def fine(cls, width: int, clip_norm: float, inflation: float = 0.01, bias: float = 1e-6) -> Grid:
        """Returns the coarsest grid on which rounding raises the L2 sensitivity by at most this share."""
        slack = math.sqrt(2 * math.log(1 / bias))
        a, c = (1 + inflation) ** 2 - 1, width / 4 + slack * math.sqrt(width) / 2
        length = (slack + math.sqrt(slack**2 + 4 * a * c)) / (2 * a)  # the root of a·C² = slack·C + c
        return cls(width, clip_norm, length / clip_norm, bias)

    @cached_property
    def squared_norm(self) -> int:
        """The bound B on the squared L2 norm of a rounded vector."""
        length, root = self.clip_norm * self.scale, math.sqrt(self.width)
        slack = math.sqrt(2 * math.log(1 / self.bias))
        return max(1, math.floor(min((length + root) ** 2, length**2 + self.width / 4 + slack * (length + root / 2))))

    def l2_sensitivity(self, adjacency: Adjacency = "zero_out") -> float:
        """Returns how far one client can move the sum, in L2."""
        return (2 if adjacency == "replace" else 1) * math.sqrt(self.squared_norm)

    def l1_sensitivity(self, adjacency: Adjacency = "zero_out") -> float:
        """Returns how far one client can move the sum, in L1."""
        bound = min(math.sqrt(self.width * self.squared_norm), float(self.squared_norm))
        return (2 if adjacency == "replace" else 1) * bound

    def event(self, variance: float, adjacency: Adjacency = "zero_out") -> Skellam:
        """Returns what the release of a sum with Skellam noise of this variance (in grid units) does."""
        return Skellam(variance, self.l2_sensitivity(adjacency), self.l1_sensitivity(adjacency))

    def modulus_bits(self, cohort: int, variance: float, wrap: float = 2.0**-40) -> int:
        """Returns the fewest bits b with which the sum of a cohort cannot wrap, except with probability `wrap`.

        **Formal guarantees**: an entry of the sum is at most cohort·√B in size, plus noise that exceeds x on any of d
        coordinates with probability ≤ 2d·exp(−x²/(2V + 2x/3)) (Bernstein's inequality for unit jumps of variance V).
        Pass the largest variance that can be left: that of the shares as drawn, since clients may vanish before they
        reveal what is removable.
        """
        tail = math.log(2 * self.width / wrap)
        noise = (tail / 3 + math.sqrt(tail**2 / 9 + 2 * variance * tail)) if variance else 0.0
        bits = math.floor(cohort * math.isqrt(self.squared_norm) + noise + 1).bit_length() + 1
        if bits > 64:
            raise RecipeError(
                f"the sum of {cohort} clients needs {bits} bits and 64 are the most: choose a coarser scale"
            )
        return bits

    def round_rows(self, rows: FloatArray, draw: UniformRows) -> IntArray:
        """Returns clients' vectors, clipped, scaled and rounded at random under the norm bound.

        Args:
            rows: one vector a client.
            draw: returns uniform numbers for some of the rows, afresh in every attempt.
        """
        values = np.asarray(rows, np.float64)
        if values.shape[1:] != (self.width,) or not np.isfinite(values).all():
            raise DataError(
                f"a row of shape {values.shape[1:]} must have {self.width} finite entries before it is rounded"
            )
        peaks = np.abs(values).max(axis=1, initial=0.0)  # squares of huge entries would overflow
        values = values / np.where(peaks > 0, peaks, 1.0)[:, None]
        lengths = np.maximum(np.linalg.norm(values, axis=1), 1.0)  # of rows whose largest entry is 1 now
        with np.errstate(over="ignore"):
            factors = np.where(lengths * peaks > self.clip_norm, self.clip_norm / lengths, peaks)
        values *= (factors * self.scale)[:, None]
        out, left = np.empty(values.shape, np.int64), np.arange(len(values))
        for attempt in range(_ATTEMPTS):
            rounded = np.floor(values[left] + draw(left, attempt)).astype(np.int64)
            fits = _squared(rounded) <= self.squared_norm
            out[left[fits]] = rounded[fits]
            left = left[~fits]
            if not left.size:
                return out
        truncated = np.trunc(values[left]).astype(np.int64)
        out[left] = np.where((_squared(truncated) <= self.squared_norm)[:, None], truncated, 0)
        return out


def _squared(rounded: IntArray) -> NDArray[np.object_]:
    """Returns each row's squared norm, exactly: entries are below 2^31 and halves of the sum are kept apart."""
    squares = (rounded * rounded).view(np.uint64)
    high, low = (squares >> np.uint64(32)).sum(axis=1), (squares & np.uint64(0xFFFFFFFF)).sum(axis=1)
    exact: NDArray[np.object_] = high.astype(object) * 2**32 + low.astype(object)
    return exact


def word(bits: int) -> type[np.unsignedinteger]:
    """Returns the smallest unsigned type that holds residues modulo 2^bits."""
    types: dict[int, type[np.unsignedinteger]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
    if not 1 <= bits <= 64:
        raise RecipeError(f"modulus_bits is {bits}: it must lie between 1 and 64")
    return next(kind for size, kind in types.items() if bits <= size)


def to_residues(values: IntArray, bits: int) -> UIntArray:
    """Returns integers modulo 2^bits, in the smallest word that holds them."""
    return reduce(np.asarray(values, np.int64).astype(word(bits)), bits)


def reduce(residues: UIntArray, bits: int) -> UIntArray:
    """Returns residues with the bits above the modulus cleared."""
    full = np.iinfo(residues.dtype).bits == bits
    return residues if full else residues & residues.dtype.type((1 << bits) - 1)


def from_residues(residues: UIntArray, bits: int) -> IntArray:
    """Returns the integers in [−2^(bits−1), 2^(bits−1)) that have these residues modulo 2^bits."""
    shift = np.uint64(64 - bits)
    return (residues.astype(np.uint64) << shift).view(np.int64) >> shift.astype(np.int64)

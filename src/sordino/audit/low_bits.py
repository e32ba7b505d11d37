"""A test that looks at low bits alone: on which lattice a released number lies, given how large it is.

Where noise and contribution are floats, their sum is a multiple of the larger one's last place: a small sum of two
large numbers has no fine bits, and noise alone of that size has. The test is blind to everything else: it compares
the last place of each number with others of its own size.

**Reference**: Mironov (2012), "On Significance of the Least Significant Bits for Differential Privacy".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.audit.statistic import Views
from sordino.types import FloatArray, IntArray

_MANTISSA = 53
_PLACES, _SIZES = 64, 24
_SURE = 5.0
"""Standard deviations by which a last place must be more frequent in one world before it counts."""


@dataclass(frozen=True)
class LowBits:
    """Sums the log-likelihood ratios of the last places of all released numbers, learned from pilot trials."""

    table: FloatArray
    """`[numbers, sizes, places]`: zero where the worlds do not surely differ."""
    largest: int
    finest: int

    @property
    def name(self) -> str:
        return "low bits"

    @classmethod
    def fit(cls, without: Views, with_: Views) -> LowBits | None:
        """Returns the test, or None where low bits tell nothing."""
        worlds = [_places(view) for view in (without, with_)]
        largest = max(int(size.max()) for size, _ in worlds)
        finest = min(int(place.min()) for _, place in worlds)
        counts = [_counted(*world, largest, finest) for world in worlds]
        shares = [(n + 0.5) / (n.sum(axis=2, keepdims=True) + 0.5 * _PLACES) for n in counts]
        spread = sum(
            s * (1 - s) / np.maximum(n.sum(axis=2, keepdims=True), 1) for s, n in zip(shares, counts, strict=True)
        )
        sure = np.abs(shares[1] - shares[0]) > _SURE * np.sqrt(np.maximum(spread, 1e-300))
        seen = (counts[0] + counts[1]) >= _SURE**2
        table = np.where(sure & seen, np.log(shares[1] / shares[0]), 0.0)
        return cls(table, largest, finest) if table.any() else None

    def score(self, views: Views) -> FloatArray:
        size, place = _binned(*_places(views), self.largest, self.finest)
        return np.asarray(self.table[np.arange(size.shape[1])[None, :], size, place].sum(axis=1))


def _places(views: Views) -> tuple[IntArray, IntArray]:
    """Returns the exponents of the highest and of the lowest bit of every number, `[trials, numbers]`."""
    rows = np.nan_to_num(views.main.reshape(len(views.main), -1).astype(np.float64))
    mantissa, size = np.frexp(rows)
    whole = np.abs(mantissa * 2.0**_MANTISSA).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return size.astype(np.int64), np.where(whole == 0, size, size - _MANTISSA + lowest).astype(np.int64)


def _binned(size: IntArray, place: IntArray, largest: int, finest: int) -> tuple[IntArray, IntArray]:
    return np.clip(largest - size, 0, _SIZES - 1), np.clip(place - finest, 0, _PLACES - 1)


def _counted(size: IntArray, place: IntArray, largest: int, finest: int) -> FloatArray:
    numbers = size.shape[1]
    size, place = _binned(size, place, largest, finest)
    flat = (np.arange(numbers)[None, :] * _SIZES + size) * _PLACES + place
    return (
        np.bincount(flat.ravel(), minlength=numbers * _SIZES * _PLACES).reshape(numbers, _SIZES, _PLACES).astype(float)
    )

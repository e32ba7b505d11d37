"""Where to cut a test's scores, decided on pilot trials that are not counted afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from sordino.audit.counts import CONFIDENCE, Counts
from sordino.types import FloatArray

_SCANNED = 200


@dataclass(frozen=True)
class Cut:
    """Guesses "the unit was there" above `value`; `swapped` says that the other guess is the telling one."""

    value: float
    swapped: bool = False

    def count(self, without: FloatArray, with_: FloatArray) -> Counts:
        """Returns how the cut does on fresh scores."""
        above = [int(np.count_nonzero(scores > self.value)) for scores in (with_, without)]
        counts = Counts(above[0], len(with_), above[1], len(without))
        return counts.swapped if self.swapped else counts


@dataclass(frozen=True)
class Cuts:
    """Cuts for two questions: how large is ε surely at δ (`telling`), and how far apart are the worlds (`middle`)?"""

    telling: tuple[Cut, ...]
    """Candidates among which the risk of error has to be shared."""
    middle: Cut
    promise: float
    """The bound on ε that the pilot's frequencies support."""
    apart: float
    """How far apart the worlds look at `middle`, in standard deviations."""


@dataclass(frozen=True)
class _Shares:
    """Shares of both worlds above each point of a grid, and how many trials are behind them."""

    without: FloatArray
    with_: FloatArray
    trials: int
    least: float = 1e-300
    """The smallest share that can be told from none."""


def choose(without: FloatArray, with_: FloatArray, delta: float, trials: int) -> Cuts:
    """Returns where to cut, given pilot scores of both worlds and how many trials of each will be counted.

    Two candidates tell about ε: the best by the pilot's own frequencies, which assumes nothing but cannot see beyond
    the pilot's tails, and the best by Gaussian tails, which can.
    """
    grid = _grid(without, with_)
    # frequencies are only trusted as far as the pilot goes: the luckiest of many cuts would look too good
    seen = _Shares(_above(without, grid), _above(with_, grid), len(without), 1 / len(without))
    tails = _Shares(_normal_above(without, grid), _normal_above(with_, grid), trials)
    candidates = [_most_telling(grid, shares, delta) for shares in (seen, tails)]
    # as many errors on either side: where frequencies are best known, and the worlds furthest apart
    middle = int(np.argmin(np.abs(seen.with_ - (1 - seen.without))))
    rates = np.clip([seen.with_[middle], seen.without[middle]], seen.least, 1 - seen.least)
    apart = float(special.ndtri(rates[0]) - special.ndtri(rates[1]))
    return Cuts(tuple(cut for cut, _ in candidates), Cut(float(grid[middle])), candidates[0][1], apart)


def _most_telling(grid: FloatArray, shares: _Shares, delta: float) -> tuple[Cut, float]:
    plain = _epsilon(shares.with_, np.maximum(shares.without, shares.least), delta, shares.trials)
    other = _epsilon(1 - shares.without, np.maximum(1 - shares.with_, shares.least), delta, shares.trials)
    swapped = bool(other.max() > plain.max())
    place = int(np.argmax(other if swapped else plain))
    return Cut(float(grid[place]), swapped), float(max(plain.max(), other.max()))


def _epsilon(tpr: FloatArray, fpr: FloatArray, delta: float, trials: int) -> FloatArray:
    """Returns the bound on ε that these rates can be expected to give."""
    low, high = _intervals(tpr, fpr, trials)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log((low - delta) / high), -np.inf)


def _intervals(tpr: FloatArray, fpr: FloatArray, trials: int) -> tuple[FloatArray, FloatArray]:
    risk = (1 - CONFIDENCE) / 2
    hits, alarms = np.clip(tpr, 0, 1) * trials, np.clip(fpr, 0, 1) * trials
    low = special.betaincinv(np.maximum(hits, 1e-9), trials - hits + 1, risk)
    high = special.betaincinv(alarms + 1, np.maximum(trials - alarms, 1e-9), 1 - risk)
    return np.asarray(np.where(hits < 0.5, 0.0, low)), np.asarray(high, dtype=np.float64)


def _grid(without: FloatArray, with_: FloatArray) -> FloatArray:
    tails = np.geomspace(1 / len(without), 0.5, _SCANNED // 2)
    levels = np.concatenate([tails, 1 - tails])
    scores = np.concatenate([np.quantile(without, levels), np.quantile(with_, levels)])
    wide = max(float(without.std()), float(with_.std())) * 8
    low, high = sorted((float(without.mean()), float(with_.mean())))
    return np.unique(np.concatenate([scores, np.linspace(low - wide, high + wide, 2 * _SCANNED)]))


def _above(scores: FloatArray, grid: FloatArray) -> FloatArray:
    return np.asarray(1 - np.searchsorted(np.sort(scores), grid, side="right") / len(scores))


def _normal_above(scores: FloatArray, grid: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(special.ndtr((scores.mean() - grid) / max(float(scores.std()), 1e-300)))

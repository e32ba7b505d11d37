"""What a run has cost so far, told after every round in milliseconds: the composed loss distribution is kept.

Composition multiplies Fourier transforms. So the transform of everything released is kept on one circle of grid
points, a round multiplies it by its own, and ε asks for one inverse transform. Losses that would leave the circle come
in again on its other side; how much mass can leave it at the top is bounded by moments and added to δ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants import pld, profile
from sordino.account.accountants.accountant import price, require_delta
from sordino.account.accountants.history import History, flatten, reason_unbounded
from sordino.errors import UnknownEvent
from sordino.events import DpEvent
from sordino.types import Adjacency, FloatArray

ComplexArray = NDArray[np.complex128]
_POWERS: FloatArray = np.concatenate([-(2.0 ** np.arange(8, -3, -0.5)), 2.0 ** np.arange(-2, 8.5, 0.5)])
"""Orders λ at which the moments E[e^{λ·loss}] are kept, for bounds on the mass beyond an end of the circle."""
_INTERVAL = 2e-4
_SIZES = (1 << 13, 1 << 14, 1 << 15, 1 << 16)
_LOST = 1e-4
"""Share of δ that may be lost to the ends of the circle before the circle is made larger."""


@dataclass(frozen=True)
class _Circle:
    """Grid points at whole multiples of `interval`, from `lowest` on, `size` of them."""

    interval: float
    size: int
    lowest: int

    @property
    def highest(self) -> int:
        return self.lowest + self.size - 1


@dataclass(frozen=True)
class _Direction:
    """Everything released, in one direction: its transform, the chance of an infinite loss, and log-moments."""

    spectrum: ComplexArray
    log_finite: float
    moments: FloatArray

    def times(self, other: _Direction, count: int = 1) -> _Direction:
        spectrum = other.spectrum if count == 1 else other.spectrum**count
        return _Direction(
            self.spectrum * spectrum,
            self.log_finite + count * other.log_finite,
            self.moments + count * other.moments,
        )

    def bound(self, delta: float) -> float:
        """Returns the ε that the moments alone prove at this δ (Canonne, Kamath, Steinke 2020, Proposition 12)."""
        above = _POWERS > 0
        order, left = 1 + _POWERS[above], delta + math.expm1(self.log_finite)
        if left <= 0:
            return math.inf
        found = self.moments[above] / _POWERS[above] + np.log1p(-1 / order) - np.log(left * order) / _POWERS[above]
        return max(0.0, float(np.min(found)))

    def outside(self, circle: _Circle) -> tuple[float, float]:
        """Returns bounds on the mass below and above the circle (Chernoff)."""
        low, high = circle.lowest * circle.interval, circle.highest * circle.interval
        below, above = _POWERS < 0, _POWERS > 0
        return (
            math.exp(min(0.0, float(np.min(self.moments[below] - _POWERS[below] * low)))),
            math.exp(min(0.0, float(np.min(self.moments[above] - _POWERS[above] * high)))),
        )


@dataclass(frozen=True)
class RunningCost:
    """The cost of a growing history. `add` returns a new one and leaves the old one as it was.

    Formal guarantees: `epsilon` is an upper bound on the true ε of the history as `price(history, "pld")` is: the same
    pessimistic grids, plus bounds for what the circle and floating point can lose. The two agree to 10⁻⁴ at δ ≥ 10⁻⁶;
    at δ = 10⁻⁸ the allowance for rounding over hundreds of rounds can reach 10⁻³. Histories of plain Gaussians are told
    exactly; one with an event that has no profile is told by `price`.

    Edge cases: nothing released costs 0; an unbounded event makes ε infinite. The circle grows when the history
    outgrows it, which costs one slower answer; give `expected` to choose it well from the start.
    """

    adjacency: Adjacency = "add_remove"
    history: Mapping[DpEvent, int] = field(default_factory=Counter)
    expected: Mapping[DpEvent, int] = field(default_factory=Counter)
    """The planned history, if there is a plan: it chooses the grid and binds nothing."""
    _state: tuple[_Circle, tuple[_Direction, _Direction]] | None = None

    @classmethod
    def planned(cls, expected: History, adjacency: Adjacency = "add_remove") -> Self:
        """Returns the cost of nothing yet, with a grid that suits what is planned."""
        return cls(adjacency, Counter(), flatten(expected))

    def add(self, event: DpEvent | History, count: int = 1) -> Self:
        """Returns the cost after `count` more of this release."""
        more = flatten(event)
        history = Counter(self.history)
        for leaf, times in more.items():
            history[leaf] += times * count
        return replace(self, history=history, _state=self._advanced(more, count))

    def epsilon(self, delta: float) -> float:
        """Returns the ε that is proved for everything added so far, at this δ."""
        require_delta(delta)
        if self._elsewhere():
            return price(self.history, "pld", self.adjacency).epsilon(delta)
        try:
            circle, directions = self._fitting(delta)
        except (UnknownEvent, ArithmeticError):
            return price(self.history, "pld", self.adjacency).epsilon(delta)
        rounds = sum(self.history.values())
        dearer, cheaper = sorted(directions, key=lambda one: -one.bound(delta))
        found = _epsilon(circle, dearer, delta, rounds)
        # Where moments already show the other direction to be cheaper, its distribution need not be looked at.
        return found if cheaper.bound(delta) <= found else max(found, _epsilon(circle, cheaper, delta, rounds))

    def _elsewhere(self) -> bool:
        unbounded = reason_unbounded(self.history) is not None
        return not self.history or unbounded or gaussian.separation(self.history) is not None

    def _advanced(self, more: History, count: int) -> tuple[_Circle, tuple[_Direction, _Direction]] | None:
        if self._state is None:
            return None
        circle, directions = self._state
        try:
            for leaf, times in pld.simplified(more, self.adjacency).items():
                forward, backward = _directions(leaf, self.adjacency, circle)
                directions = directions[0].times(forward, times * count), directions[1].times(backward, times * count)
        except (UnknownEvent, ArithmeticError):
            return None
        return circle, directions

    def _fitting(self, delta: float) -> tuple[_Circle, tuple[_Direction, _Direction]]:
        """Returns a circle that loses little of δ, and the history on it; what was kept, if it does."""
        if self._state is not None and _fits(*self._state, delta):
            return self._state
        history = pld.simplified(self.history, self.adjacency)
        # Without a plan, or beyond it, room for as much again: circles are changed a logarithmic number of times.
        ahead = Counter(self.expected)
        if any(count > ahead[event] for event, count in self.history.items()):
            ahead |= Counter({event: 2 * count for event, count in self.history.items()})
        ahead = Counter(pld.simplified(ahead, self.adjacency))
        circle = _circle(ahead, self.adjacency, delta)
        found = circle, _composed(history, self.adjacency, circle)
        object.__setattr__(self, "_state", found)  # a cache: what is told does not depend on it
        return found


def _fits(circle: _Circle, directions: tuple[_Direction, _Direction], delta: float) -> bool:
    # What leaves at the bottom comes in at the top, where it is counted: that is safe, and only has to be little.
    ends = [one.outside(circle) for one in directions]
    return all(above <= _LOST * delta and below <= 10 * _LOST * delta for below, above in ends)


def _circle(history: History, adjacency: Adjacency, delta: float) -> _Circle:
    """Returns the finest circle that holds this history, with room for a quarter more of it."""
    coarse = _Circle(16 * _INTERVAL, _SIZES[0], -_SIZES[0] // 2)
    directions = _composed(history, adjacency, coarse)
    log_lost = math.log(_LOST * delta / 1000)  # well inside, so that the next rounds fit too
    below, above = _POWERS < 0, _POWERS > 0
    low, high = 0.0, 0.0
    for one in directions:
        # Less of the history may have a larger moment, where moments fall below 1: none has one above this.
        moments = 1.25 * np.maximum(one.moments, 0.0)
        low = min(low, float(np.max((moments[below] - log_lost) / _POWERS[below])))
        high = max(high, float(np.min((moments[above] - log_lost) / _POWERS[above])))
    interval, width = _INTERVAL, high - low
    while width / interval > _SIZES[-1] - 2:
        interval *= 2
    size = next(size for size in _SIZES if width / interval <= size - 2)
    return _Circle(interval, size, math.floor(low / interval) - 1)


def _composed(history: History, adjacency: Adjacency, circle: _Circle) -> tuple[_Direction, _Direction]:
    nothing = _Direction(np.ones(circle.size // 2 + 1, np.complex128), 0.0, np.zeros_like(_POWERS))
    forward, backward = nothing, nothing
    for event, count in history.items():
        one, other = _directions(event, adjacency, circle)
        forward, backward = forward.times(one, count), backward.times(other, count)
    return forward, backward


@lru_cache(maxsize=128)
def _directions(event: DpEvent, adjacency: Adjacency, circle: _Circle) -> tuple[_Direction, _Direction]:
    losses = profile.both_losses(pld.profile_of(event, adjacency), circle.interval)
    return _transformed(losses[0], circle), _transformed(losses[1], circle)


def _transformed(losses: profile.Losses, circle: _Circle) -> _Direction:
    places = losses.lowest + np.arange(len(losses.mass))
    folded = np.bincount(places % circle.size, losses.mass, circle.size)
    exponents = np.multiply.outer(_POWERS, places * circle.interval)
    with np.errstate(divide="ignore"):
        exponents += np.log(losses.mass)
    largest = exponents.max(axis=1)
    moments = largest + np.log(np.exp(exponents - largest[:, None]).sum(axis=1))
    return _Direction(fft.rfft(folded), math.log1p(-losses.infinite), moments)


@lru_cache(maxsize=8)
def _levels(circle: _Circle) -> FloatArray:
    """Returns e^loss at the grid's points from zero up."""
    return np.asarray(np.exp(np.arange(circle.highest + 1) * circle.interval))


def _epsilon(circle: _Circle, direction: _Direction, delta: float, rounds: int) -> float:
    mass = fft.irfft(direction.spectrum, circle.size)
    # Rounding: each factor's transform is right to 7·log₂(size) units (Higham 2002, Theorem 24.2) and its product to
    # one more; Cauchy and Schwarz turn the error's 2-norm into a bound on what it adds up to.
    rounding = 8 * 2.0**-53 * rounds * math.log2(circle.size)
    rounding *= math.sqrt(circle.size * float(mass @ mass))
    left = delta + math.expm1(direction.log_finite) - direction.outside(circle)[1] - rounding
    if left <= 0:
        return math.inf
    # Places above zero: in the circle's order they are 1 … highest.
    above = np.maximum(mass[1 : circle.highest + 1], 0.0)
    level = _levels(circle)
    tail = np.cumsum(above[::-1])[::-1]
    scaled = np.cumsum((above / level[1:])[::-1])[::-1]
    # δ just above the loss before the k-th: all masses from the k-th on count.
    first = int(np.count_nonzero(tail - level[:-1] * scaled > left))
    if first == 0:
        return 0.0
    if first == len(tail) or scaled[first - 1] <= 0:
        return math.inf
    return max(0.0, math.log((tail[first - 1] - left) / scaled[first - 1]))

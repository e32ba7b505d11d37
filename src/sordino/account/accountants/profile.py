"""Privacy profiles, δ(ε) in both directions: what sampling makes of them, and how they become loss distributions.

A profile bounds the hockey-stick divergences of one pair of worlds (X, Y): `forward(ε)` bounds H(X‖Y) and
`backward(ε)` H(Y‖X) at e^ε, for ε ≥ 0. Bounds at all ε are all that a loss distribution is made of, so whatever has a
profile can be composed. Proofs: docs/accounting.md, "Profiles".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from sordino.types import FloatArray

Deltas = Callable[[FloatArray], FloatArray]
_ROUNDING = 1e-15
_FARTHEST = 700.0
_TAIL = 1e-22
"""Mass at either end of a loss distribution that is moved to the pessimistic side instead of being resolved."""


@dataclass(frozen=True)
class Profile:
    """Upper bounds on δ for every ε ≥ 0, in both directions."""

    forward: Deltas
    backward: Deltas

    def hockey(self, epsilon: FloatArray) -> FloatArray:
        """Returns the bound on H(X‖Y) at e^ε for ε of any sign: H_t(X‖Y) = 1 − t + t·H_{1/t}(Y‖X)."""
        positive = self.forward(np.maximum(epsilon, 0.0))
        below = np.minimum(epsilon, 0.0)
        negative = -np.expm1(below) + np.exp(below) * self.backward(-below)
        return np.asarray(np.where(epsilon >= 0, positive, negative))

    def worst(self, epsilon: FloatArray) -> FloatArray:
        """Returns the larger bound of the two directions."""
        return np.maximum(self.forward(epsilon), self.backward(epsilon))

    def swapped(self) -> Profile:
        """Returns the profile of (Y, X)."""
        return Profile(self.backward, self.forward)


def gaussian(separation: float) -> Profile:
    """Returns the profile of two unit Gaussians at this distance."""

    def deltas(epsilon: FloatArray) -> FloatArray:
        above, below = separation / 2 - epsilon / separation, -separation / 2 - epsilon / separation
        first = log_ndtr(above)
        # Both terms agree to many digits in the tail: their ratio is taken in logarithms.
        return np.asarray(np.exp(first) * -np.expm1(np.minimum(0.0, epsilon + log_ndtr(below) - first)))

    return Profile(deltas, deltas)


def laplace(noise_multiplier: float) -> Profile:
    """Returns the profile of two Laplace distributions of scale b at distance 1: 1 − e^{(ε − 1/b)/2}."""

    def deltas(epsilon: FloatArray) -> FloatArray:
        return np.asarray(-np.expm1(np.minimum(0.0, (epsilon - 1 / noise_multiplier) / 2)))

    return Profile(deltas, deltas)


def poisson(rate: float, unsampled: Profile) -> Profile:
    """Returns the profile of ((1−q)·Y + q·X, Y): the unit is included with probability q, and absent otherwise.

    Reference: Zhu, Dong, Wang (2022), "Optimal accounting of differential privacy via characteristic function", Thm 11.
    """

    def forward(epsilon: FloatArray) -> FloatArray:
        return rate * unsampled.forward(_unamplified(rate, epsilon))

    def backward(epsilon: FloatArray) -> FloatArray:
        # 1 − (1−q)·e^ε, and the order α = that over q·e^ε at which the unsampled pair is asked.
        left = -np.expm1(np.minimum(0.0, epsilon + math.log1p(-rate)))
        with np.errstate(divide="ignore"):
            asked = np.maximum(0.0, epsilon + math.log(rate) - np.log(left))
        return np.asarray(np.where(left > 0, left * unsampled.backward(np.minimum(asked, 1e6)), 0.0))

    return Profile(forward, backward)


def overlapping(rate: float, forward: tuple[Deltas, Deltas], backward: tuple[Deltas, Deltas]) -> Profile:
    """Returns the profile of ((1−q)·A + q·B, (1−q)·A + q·B′) from those of its parts.

    Args:
        rate: q, the chance that the unit is drawn.
        forward: bounds on H(B‖A) and on H(B‖B′).
        backward: bounds on H(B′‖A) and on H(B′‖B).

    Reference: Balle, Barthe, Gaboardi (2018), "Privacy amplification by subsampling", Theorem 2.
    """

    def bound(parts: tuple[Deltas, Deltas]) -> Deltas:
        absent, changed = parts

        def deltas(epsilon: FloatArray) -> FloatArray:
            asked = _unamplified(rate, epsilon)
            share = np.exp(epsilon - asked)
            amplified = (1 - share) * absent(asked) + share * changed(asked)
            # Joint convexity with the same A on both sides: only the drawn part differs, by the change alone.
            return np.asarray(rate * np.minimum(amplified, changed(epsilon)))

        return deltas

    return Profile(bound(forward), bound(backward))


def replaced_gaussian(rate: float, separation: float) -> Profile:
    """Returns the profile of (1−q)·N(0) + q·N(s/2) against (1−q)·N(0) + q·N(−s/2): Poisson coins under `replace`.

    The likelihood ratio grows with x, so a threshold tells best; where the ratio is e^ε, e^{sx/2} solves a quadratic.
    """
    half, present, absent = separation / 2, math.log(rate), math.log1p(-rate)
    weight = present - half**2 / 2

    def deltas(epsilon: FloatArray) -> FloatArray:
        # all in logarithms: e^{−s²/8} is no number of floating point where there is hardly any noise
        with np.errstate(divide="ignore"):
            linear = absent + np.log(np.expm1(epsilon))
        root = np.logaddexp(2 * linear, 2 * (math.log(2) + weight) + epsilon) / 2
        x = (np.logaddexp(linear, root) - math.log(2) - weight) / half
        with_ = np.exp(present + log_ndtr(half - x))
        against = np.exp(np.logaddexp(present + epsilon + log_ndtr(-half - x), linear + log_ndtr(-x)))
        return np.asarray(np.maximum(0.0, with_ - against))

    return Profile(deltas, deltas)


def _unamplified(rate: float, epsilon: FloatArray) -> FloatArray:
    """Returns the ε₀ with e^ε = 1 + q·(e^ε₀ − 1)."""
    return np.asarray(epsilon + np.log1p(-(1 - rate) * np.exp(-epsilon)) - math.log(rate))


def reach(profile: Profile) -> tuple[float, float]:
    """Returns how far losses go, below zero and above, until what is left has mass 10⁻²²."""
    return _end(profile.backward), _end(profile.forward)


def _end(deltas: Deltas) -> float:
    end = 1e-3
    while deltas(np.array([end]))[0] > _TAIL:
        end *= 2
        if end > _FARTHEST:
            raise ArithmeticError(f"losses go beyond {_FARTHEST:g}")
    low = end / 2
    while end - low > end / 64:
        middle = (low + end) / 2
        low, end = (middle, end) if deltas(np.array([middle]))[0] > _TAIL else (low, middle)
    return end


@dataclass(frozen=True)
class Losses:
    """One direction's distribution of the loss: P(loss = (lowest + k)·interval) = mass[k], and P(∞) = infinite."""

    lowest: int
    mass: FloatArray
    infinite: float


def both_losses(profile: Profile, interval: float) -> tuple[Losses, Losses]:
    """Returns the pessimistic distributions of the loss of X against Y, and of Y against X, on a grid.

    Formal guarantees: their curves are nowhere below the pair's. The true divergences are convex in e^ε and below the
    bounds, so they are below the largest convex function under the bounds at the grid's points, which is what the
    distributions have (connect the dots, Doroshenko et al. 2022).

    Raises:
        ArithmeticError: the profile does not fall below 10⁻²² at any ε that floating point can hold.
    """
    low, high = (math.ceil(end / interval) for end in reach(profile))
    return _connect(profile, interval, low, high), _connect(profile.swapped(), interval, high, low)


def _connect(profile: Profile, interval: float, low: int, high: int) -> Losses:
    epsilon: FloatArray = np.arange(-low, high + 1, dtype=np.float64) * interval
    # What the bounds leave below 1 − e^ε is rounding: no pair is there.
    bounds = np.maximum(profile.hockey(epsilon), -np.expm1(epsilon))
    deltas = _convex(epsilon, np.asarray(np.clip(bounds, 0.0, 1.0), dtype=np.float64))
    falls = np.diff(deltas)
    mass = np.empty_like(deltas)
    mass[0] = 1 - deltas[0] + falls[0] / math.expm1(interval)
    mass[1:-1] = (falls[1:] - falls[:-1] * math.exp(interval)) / math.expm1(interval)
    mass[-1] = falls[-1] / math.expm1(-interval)
    return Losses(-low, np.maximum(0.0, mass), float(deltas[-1]))


def _convex(epsilon: FloatArray, deltas: FloatArray) -> FloatArray:
    """Returns the largest convex function of e^ε that is nowhere above these points."""
    deltas = np.minimum.accumulate(deltas)
    slopes = np.diff(deltas) * np.exp(-epsilon[1:])
    if np.all(slopes[1:] >= slopes[:-1] - _ROUNDING * np.exp(-epsilon[1:-1])):
        return deltas
    level = np.exp(epsilon)
    hull: list[int] = []
    for place in range(len(level)):
        while len(hull) > 1 and _above(level, deltas, hull[-2], hull[-1], place):
            hull.pop()
        hull.append(place)
    return np.asarray(np.interp(level, level[hull], deltas[hull]))


def _above(level: FloatArray, deltas: FloatArray, first: int, middle: int, last: int) -> bool:
    """Returns whether the middle point lies on or above the line through the others."""
    rise = (deltas[last] - deltas[first]) * (level[middle] - level[first])
    return bool((deltas[middle] - deltas[first]) * (level[last] - level[first]) >= rise)

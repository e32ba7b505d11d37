"""A privacy curve as attacks see it: error rates, advantage, and the Gaussian that describes it best.

Formal guarantees: everything here follows from the curve δ(ε) of an accountant, which is an upper bound; so error rates
are lower bounds, and advantage and μ upper bounds, on what any attack on one unit can do, whatever it knows.

Reference: Wasserman and Zhou (2010); Dong, Roth, Su (2019), Proposition 2.13; Gomez, Kulynych, Kaissis, Calmon, Balle,
Honkela (2025), "(ε, δ) considered harmful"; Kaissis et al. (2024), "Beyond the calibration point", for the regret.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.accountant import Curve
from sordino.types import FloatArray

RATES = (0.001, 0.01, 0.1)
"""False-positive rates at which a certificate tells the false-negative rate."""
_POINTS = 400
_FLOOR = 1e-10


@dataclass(frozen=True)
class Tradeoff:
    """A curve, sampled: `delta[k]` is proved at `epsilon[k]`, from ε = 0 to where δ falls to `floor` or below."""

    epsilon: FloatArray
    delta: FloatArray
    floor: float = _FLOOR

    @property
    def advantage(self) -> float:
        """The largest true-positive rate minus false-positive rate of any attack: δ(0)."""
        return float(self.delta[0])

    def false_negative_rate(self, false_positive_rate: float) -> float:
        """Returns a lower bound on the false-negative rate of any attack with this false-positive rate."""
        return float(self.false_negative_rates(np.array([false_positive_rate]))[0])

    def false_negative_rates(self, false_positive_rates: FloatArray) -> FloatArray:
        """Returns the same for several rates: the largest of 1 − δ − e^ε·a and e^{−ε}·(1 − δ − a) over the curve."""
        a, left = false_positive_rates[:, None], 1 - self.delta
        level = np.exp(np.minimum(self.epsilon, 700.0))
        lines = np.maximum(left - level * a, (left - a) / level)
        return np.asarray(np.maximum(0.0, lines.max(axis=1)))


@dataclass(frozen=True)
class GaussianFit:
    """The smallest μ whose Gaussian curve is nowhere below the given one, down to δ = `floor`, and what that loses.

    Attributes:
        mu: μ of Gaussian differential privacy.
        regret: how far error rates may be from the Gaussian's: both rates of some attack that μ allows would have to
            rise by this much to be what the curve allows. Up to 0.01 μ describes the whole curve (Gomez et al. 2025);
            beyond it the curve itself should be read.
        floor: the δ below which the curve was not looked at.
    """

    mu: float
    regret: float
    floor: float


def tradeoff(curve: Curve, floor: float = _FLOOR, points: int = _POINTS) -> Tradeoff:
    """Returns a curve on a grid of ε that is finer near 0, up to where δ is at most `floor`.

    Edge cases: a curve that never falls so low (something unbounded) is given at ε = 0 alone, with δ = 1.
    """
    end = curve.epsilon(floor)
    if not math.isfinite(end):
        return Tradeoff(np.zeros(1), np.ones(1), floor)
    epsilon = end * np.linspace(0.0, 1.0, points) ** 1.5 if end > 0 else np.zeros(1)
    return Tradeoff(epsilon, np.array([min(1.0, curve.delta(float(one))) for one in epsilon]), floor)


def fit(found: Tradeoff) -> GaussianFit:
    """Returns the best Gaussian description of a curve, with its regret.

    Formal guarantees: at every ε of the grid, δ ≤ δ_μ(ε). Between its points, and below the floor, nothing is claimed
    beyond the interpolation: report the curve where that matters.

    Edge cases: no privacy at all is μ = ∞ with regret 0; nothing released is μ = 0.
    """
    if found.delta[0] >= 1:
        return GaussianFit(math.inf, 0.0, found.floor)
    pairs = [(e, d) for e, d in zip(found.epsilon, found.delta, strict=True) if d >= found.floor]
    mu = max((gaussian.separation_for(float(e), float(d)) for e, d in pairs), default=0.0)
    return GaussianFit(mu, _regret(found, mu) if mu else 0.0, found.floor)


def _regret(found: Tradeoff, mu: float) -> float:
    """Returns the smallest κ with f(a + κ) − κ ≤ G_μ(a) for all a, where f is the curve's trade-off function."""
    rates = np.concatenate([np.geomspace(1e-9, 1e-2, 200), np.linspace(0.01, 1.0, 400)])
    allowed = ndtr(-ndtri(rates) - mu)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        shifted = found.false_negative_rates(np.minimum(1.0, rates + middle)) - middle
        low, high = (low, middle) if np.all(shifted <= allowed + 1e-12) else (middle, high)
    return high

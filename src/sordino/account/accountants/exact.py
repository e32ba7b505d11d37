"""The exact privacy curve of plain Gaussians: one number μ says it all (Gaussian differential privacy).

Formal guarantees: releases with noise multipliers z_1, z_2, … compose, adaptively in what they ask but with multipliers
fixed beforehand, to exactly μ-GDP with μ² = Σ 1/z_t². Two Gaussians at distance μ attain it. Integer noise that a
Gaussian dominates (`account.dominate`) counts as that Gaussian, as an upper bound.

Reference: Balle and Wang (2018), "Improving the Gaussian mechanism", Theorem 8; Dong, Roth, Su (2019), Corollary 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from sordino.account.accountants import dominate
from sordino.errors import AccountingError
from sordino.events import DiscreteGaussian, DpEvent, Skellam
from sordino.types import FloatArray

_HUGE = 1e300
LEAST_DELTA = 1e-100
"""Smaller ones are nobody's, and lost in rounding."""


def separation(history: Mapping[DpEvent, int]) -> float | None:
    """Returns μ = √Σ count/z² of a flattened history, or None when no Gaussian dominates one of its events."""
    total = []
    for event, count in history.items():
        if (mu := dominate.separation(event)) is None:
            return None
        total.append(count * mu**2)
    return math.sqrt(math.fsum(total))


def note(history: Mapping[DpEvent, int]) -> str:
    """Returns a remark when integer noise is priced as the Gaussian that dominates it, else nothing."""
    kinds = sorted({type(event).__name__ for event in history if isinstance(event, Skellam | DiscreteGaussian)})
    return f"{' and '.join(kinds)} noise is priced as the Gaussian that dominates it" if kinds else ""


def delta_of(mu: float, epsilon: float) -> float:
    """Returns δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."""
    if mu == 0:
        return 0.0
    tail = math.exp(min(0.0, epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))
    return max(0.0, float(ndtr(mu / 2 - epsilon / mu)) - tail)


def epsilon_of(mu: float, delta: float) -> float:
    """Returns the smallest ε ≥ 0 with δ(ε) ≤ delta."""
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0 or mu > math.sqrt(_HUGE):
        return math.inf
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    return float(brentq(lambda epsilon: delta_of(mu, epsilon) - delta, 0.0, upper, xtol=1e-13, rtol=1e-14, maxiter=500))


@lru_cache(maxsize=64)  # every filter asks for the same budget again and again
def separation_for(epsilon: float, delta: float) -> float:
    """Returns the largest μ whose curve passes below (ε, δ): the budget of the Gaussian filter.

    Raises:
        AccountingError: δ is so small that its curve is lost in rounding.
    """
    if delta < LEAST_DELTA:
        raise AccountingError(f"delta {delta:g} is below {LEAST_DELTA:g}: take one that floating point tells from 0")
    upper = 1.0
    while delta_of(upper, epsilon) <= delta:
        upper *= 2
    root = float(brentq(lambda mu: delta_of(mu, epsilon) - delta, 0.0, upper, xtol=1e-15, rtol=1e-14, maxiter=500))
    while delta_of(root, epsilon) > delta:
        root = float(np.nextafter(root, 0.0)) * (1 - 1e-15)
    return root


def epsilons_of(mu: FloatArray, delta: float) -> FloatArray:
    """Returns ε(delta) for every μ at once: equal ones are solved once, many different ones by one bisection."""
    distinct, inverse = np.unique(mu, return_inverse=True)
    if len(distinct) <= 256:
        return np.array([epsilon_of(float(value), delta) for value in distinct])[inverse]
    low, high = np.zeros_like(distinct), distinct**2 / 2 + distinct * math.sqrt(2 * math.log(1 / delta))
    for _ in range(100):
        middle = (low + high) / 2
        safe = np.maximum(distinct, 1e-300)
        tail = np.exp(np.minimum(0.0, middle + log_ndtr(-safe / 2 - middle / safe)))
        above = ndtr(safe / 2 - middle / safe) - tail > delta
        low, high = np.where(above, middle, low), np.where(above, high, middle)
        if np.all(high - low <= 1e-12 * np.maximum(high, 1e-3)):
            break
    return np.asarray(high[inverse], dtype=np.float64)

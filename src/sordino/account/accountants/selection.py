"""What it costs to release the best of a random number of trials (charged choice of settings).

**Formal guarantees** (Papernot and Steinke 2022, Theorem 2). Let a trial be (λ, ε)-RDP and (λ̂, ε̂)-RDP. The best of K
independent trials, K from the truncated negative binomial law D_{η,γ}, is (λ, ε′)-RDP with

    ε′ = ε + (1 + η)·(1 − 1/λ̂)·ε̂ + (1 + η)·ln(1/γ)/λ̂ + ln(E K)/(λ − 1).

λ̂ is free: the least over a grid is taken. "Best" is by any score that is a function of what the trial released and of
public data. K and the other trials are no part of the release.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from sordino.errors import AccountingError
from sordino.types import FloatArray


def expected_trials(shape: float, stop: float) -> float:
    """Returns E K of D_{η,γ}."""
    _require(shape, stop)
    if shape == 0:
        return (1 / stop - 1) / math.log(1 / stop)
    return shape * (1 - stop) / (stop * -math.expm1(shape * math.log(stop)))


def stop_for(shape: float, trials: float) -> float:
    """Returns the γ with which so many trials are expected.

    Raises:
        AccountingError: not more than one is: nothing would be chosen.
    """
    if not trials > 1:
        raise AccountingError(f"{trials:g} trials choose nothing: expect more than 1")
    return float(brentq(lambda stop: math.log(expected_trials(shape, stop) / trials), 1e-12, 1 - 1e-9, xtol=1e-15))


def draw_trials(shape: float, stop: float, generator: np.random.Generator) -> int:
    """Returns K ≥ 1 from D_{η,γ}: the logarithmic law for η = 0, else a negative binomial without its zero."""
    _require(shape, stop)
    if shape == 0:
        return int(generator.logseries(1 - stop))
    if shape < 0:
        raise AccountingError(f"shape {shape:g} cannot be drawn from: use 0 or more")
    while True:
        if (found := int(generator.negative_binomial(shape, stop))) > 0:
            return found


def divergence(
    orders: FloatArray, trial: FloatArray, grid: FloatArray, on_grid: FloatArray, shape: float, stop: float
) -> FloatArray:
    """Returns the Rényi divergence of the best of many at each order.

    Args:
        orders: λ.
        trial: what one trial costs at each of them.
        grid: values of λ̂ to choose from, at least 1.
        on_grid: what one trial costs at each of those.
        shape: η.
        stop: γ.
    """
    expected = expected_trials(shape, stop)
    extra = (1 + shape) * ((1 - 1 / grid) * on_grid + math.log(1 / stop) / grid)
    return np.asarray(trial + extra.min() + math.log(expected) / (orders - 1), dtype=np.float64)


def _require(shape: float, stop: float) -> None:
    if not (math.isfinite(shape) and shape > -1 and 0 < stop < 1):
        raise AccountingError(f"shape {shape} must be above −1 and stop {stop} strictly between 0 and 1")

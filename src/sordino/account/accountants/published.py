"""The papers' own formulas, as printed. They reproduce published numbers and feed `claimed` ε; they certify nothing.

Symbols follow each paper, cited by equation; `docs/notation.md` lists them.
"""

from __future__ import annotations

import math

import numpy as np

from sordino.account.accountants.calibrate import largest_between
from sordino.errors import AccountingError
from sordino.types import FloatArray


def xue_delta(epsilon: float, participations: int, sigma0: float, target_delta: float) -> float:
    """Returns δ_i = min over whole α > 1 + ln(1/δ*)/ε of exp((α−1)(L_i·α/(2σ0²) − ε)).

    Reference: Xue et al., Eq. (12) and Algorithm 4.
    """
    _require(epsilon=epsilon, sigma0=sigma0, target_delta=target_delta)
    if participations == 0:
        return 0.0
    least = _least_order(epsilon, target_delta)
    # The exponent is a parabola in α, so its best whole number is next to the vertex or at the edge.
    vertex = 0.5 + epsilon * sigma0**2 / participations
    orders = {max(least, candidate) for candidate in (math.floor(vertex), math.ceil(vertex))}
    exponents = [(a - 1) * (participations * a / (2 * sigma0**2) - epsilon) for a in orders]
    return math.exp(min(700.0, min(exponents)))


def xue_participations(epsilon: float, sigma0: float, target_delta: float) -> int:
    """Returns the largest L with δ_i ≤ δ*: how often a client may upload. Reference: Xue et al., Eq. (12)."""

    def fits(participations: int) -> bool:
        return xue_delta(epsilon, participations, sigma0, target_delta) <= target_delta

    high = 1
    while fits(high):
        high *= 2
    return largest_between(high // 2, high, fits) if high > 1 else 0


def xue_sigma0(epsilon: float, rounds: int, target_delta: float) -> float:
    """Returns the smallest σ0 for which L = T uploads keep δ ≤ δ*. Reference: Xue et al., Eq. (13), solved for σ0.

    For a fixed α, Eq. (13) reads σ0² ≥ T·α / (2(ε − ln(1/δ*)/(α−1))); the least over whole α is taken.
    """
    _require(epsilon=epsilon, rounds=rounds, target_delta=target_delta)
    least = _least_order(epsilon, target_delta)
    log = math.log(1 / target_delta)
    # α(α−1)/((α−1)ε − log) falls, then rises; its minimum lies below twice the pole plus a margin.
    orders = np.arange(least, 4 * least + 64, dtype=np.float64)
    squares = rounds * orders / (2 * (epsilon - log / (orders - 1)))
    return math.sqrt(float(squares[squares > 0].min()))


def xue_epsilon(participations: int, sigma0: float, delta: float) -> float:
    """Returns min over whole α > 1 of L·α/(2σ0²) + ln(1/δ)/(α−1). Reference: Xue et al., Eq. (7), solved for ε."""
    _require(sigma0=sigma0, delta=delta)
    if participations == 0:
        return 0.0
    log = math.log(1 / delta)
    # Convex in α with its minimum at 1 + σ0·√(2·log/L), so the best whole number is next to it.
    vertex = 1 + sigma0 * math.sqrt(2 * log / participations)
    orders = {max(2, math.floor(vertex)), max(2, math.ceil(vertex))}
    return min(participations * a / (2 * sigma0**2) + log / (a - 1) for a in orders)


def _least_order(epsilon: float, target_delta: float) -> int:
    return math.floor(1 + math.log(1 / target_delta) / epsilon) + 1


def yuan_sum(theta: float, aggregations: float) -> float:
    """Returns S = (θ − θ^{1−M})/(θ − 1), and M for θ = 1: the noise precisions of a geometric schedule, summed."""
    _require(theta=theta)
    return float(aggregations) if theta == 1 else (theta - theta ** (1 - aggregations)) / (theta - 1)


def yuan_sensitivity(clip_norm: float, records: int) -> float:
    """Returns Δs = 2C/|D_k| as printed below Eq. (7). (What clipped weights really have is 2C.)"""
    _require(clip_norm=clip_norm, records=records)
    return 2 * clip_norm / records


def yuan_sigma(sensitivity: float, epsilon: float, delta: float, rate: float, precision: float) -> float:
    """Returns σ = (Δs/ε)·√(2q·S·ln(1/δ)). Reference: Yuan et al., Eq. (8), with S from `yuan_sum` or `yuan_refined`."""
    _require(sensitivity=sensitivity, epsilon=epsilon, rate=rate, precision=precision)
    return sensitivity / epsilon * math.sqrt(2 * rate * precision * math.log(1 / delta))


def yuan_refined(theta: float, at: int, aggregations: int) -> float:
    """Returns the S that Theorem 2 puts in place of Eq. (8)'s when, at aggregation m, M becomes M′.

    Reference: Yuan et al., Eq. (9), three cases: θ > 1, θ = 1, θ < 1.
    """
    _require(theta=theta)
    if not 1 <= at <= aggregations:
        raise AccountingError(f"refinement at aggregation {at} must lie in 1 … {aggregations}")
    if theta == 1:
        return float(aggregations)
    if theta > 1:
        return yuan_sum(theta, at) + aggregations - at
    return (theta ** (1 - at) - theta + theta ** (at - aggregations)) / (1 - theta)


def yuan_reduced(aggregations: int, factor: float) -> int:
    """Returns M′ = ⌈α_d·M⌉. Reference: Yuan et al., section III-D."""
    return math.ceil(factor * aggregations)


def fed_cad_schedule(difference: float, participations: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns (v, r, s): noise variance, carried share and fresh multiplier (all relative to σ) of each participation.

    v_1 = 1, r_t = (1−D)/((1−D)² + v_{t−1}), s_t = (1−r_t) + r_t·D, v_t = v_{t−1}/((1−D)² + v_{t−1}).
    Reference: Fed-CAD, Algorithm 1, lines 11–18, and Theorem VI.2: v_t = (2D−D²)/(1−(1−D)^{2t}).
    """
    if not 0 < difference <= 1:
        raise AccountingError(f"difference {difference} must lie in (0, 1]")
    v, r, s = np.ones(participations), np.zeros(participations), np.ones(participations)
    keep = 1 - difference
    for t in range(1, participations):
        r[t] = keep / (keep**2 + v[t - 1])
        s[t] = (1 - r[t]) + r[t] * difference
        v[t] = v[t - 1] / (keep**2 + v[t - 1])
    return v, r, s


def _require(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise AccountingError(f"{name} {value} must be finite and above 0")

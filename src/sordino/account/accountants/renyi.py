"""Rényi divergences of single releases, as arrays over orders. Pure mathematics; events are not known here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import gammaln, logsumexp

from sordino.types import FloatArray

MODERN_ORDERS: FloatArray = np.concatenate(
    [np.arange(105, 200, 5) / 100, np.arange(20, 110) / 10, np.arange(11, 64), 2.0 ** np.arange(6, 13)]
)
CLASSIC_ORDERS: FloatArray = np.concatenate([np.arange(11, 110) / 10, np.arange(12.0, 64.0)])
"""The orders of the accountants that the papers used (1.1 … 10.9 in steps of 0.1, then 12 … 63)."""


def gaussian(noise_multiplier: float, orders: FloatArray) -> FloatArray:
    """Returns α/(2z²). Reference: Mironov (2017), Proposition 7."""
    return orders / (2 * noise_multiplier**2)


def laplace(noise_multiplier: float, orders: FloatArray) -> FloatArray:
    """Returns the divergence of two Laplace distributions, scale b, distance 1. Reference: Mironov (2017), Prop. 6."""
    shift = 1 / noise_multiplier
    inner = (orders - 1) * np.expm1((1 - 2 * orders) * shift) / (2 * orders - 1)
    return np.asarray(shift + np.log1p(inner) / (orders - 1), dtype=np.float64)


def skellam(variance: float, l2: float, l1: float, orders: FloatArray) -> FloatArray:
    """Returns the bound for an integer vector with Skellam noise, of the given variance, on each coordinate.

    Formal guarantees: for integer α the bound is αΔ₂²/(2μ) + min(((2α−1)Δ₂² + 6Δ₁)/(4μ²), 3Δ₁/(2μ)). Between integers
    (α−1)·D_α is convex in α, so the straight line through its integer neighbours is an upper bound too.

    Reference: Agarwal, Kairouz, Liu (2021), Theorem 3.5; convexity: van Erven and Harremoës (2014), Corollary 2.
    """

    def bound(order: FloatArray) -> FloatArray:
        second = ((2 * order - 1) * l2**2 + 6 * l1) / (4 * variance**2)
        return order * l2**2 / (2 * variance) + np.minimum(second, 3 * l1 / (2 * variance))

    return _between_integers(bound, orders)


def poisson_gaussian(rate: float, noise_multiplier: float, orders: FloatArray) -> FloatArray:
    """Returns the divergence of a Gaussian whose unit is included with probability `rate` (add/remove, zero-out).

    Formal guarantees: with ℓ the likelihood ratio of the two Gaussians, D_α = ln E[(1 + q(ℓ−1))^α]/(α−1), and this
    direction is the larger one. The expectation is a trapezoid sum of an analytic integrand, whose error falls
    exponentially; we sum (1+y)^α − 1 − αy instead of (1+y)^α, since E[y] = 0, so that small divergences keep digits.

    Reference: Mironov, Talwar, Zhang (2019), "Rényi differential privacy of the sampled Gaussian mechanism", Theorem 4.
    """
    if noise_multiplier < 0.1:  # the integral would need too many points; whole orders have a closed form
        return _between_integers(
            lambda whole: np.array([_binomial_moment(rate, noise_multiplier, int(a)) / (a - 1) for a in whole]), orders
        )
    log_moment = np.empty_like(orders)
    whole = (orders > 64) & (orders == np.round(orders))
    log_moment[whole] = [_binomial_moment(rate, noise_multiplier, int(order)) for order in orders[whole]]
    log_moment[~whole] = _integral_moment(rate, noise_multiplier, orders[~whole])
    return np.asarray(np.minimum(log_moment / (orders - 1), gaussian(noise_multiplier, orders)), dtype=np.float64)


def _binomial_moment(rate: float, sigma: float, order: int) -> float:
    k = np.arange(order + 1)
    binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    terms = binomial + k * math.log(rate) + (order - k) * math.log1p(-rate) + (k * k - k) / (2 * sigma**2)
    return max(0.0, float(logsumexp(terms)))


def _integral_moment(rate: float, sigma: float, orders: FloatArray) -> FloatArray:
    """Returns ln E[(1 + y)^α] for y = q(ℓ−1), by one trapezoid sum over all orders."""
    if not len(orders):
        return orders
    # The integrand's nearest singularity is at distance πσ² from the real line: the step must resolve it.
    step = min(sigma / 8, sigma**2 / 2)
    x = np.arange(-14 * sigma, float(orders.max()) + 14 * sigma, step)
    log_weight = -(x**2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi)) + math.log(step)
    log_ratio = (2 * x - 1) / (2 * sigma**2)
    log_mixed = np.logaddexp(math.log1p(-rate), math.log(rate) + log_ratio)
    moment = _log_sum(log_weight + np.outer(orders, log_mixed))
    small = moment < 0.1
    moment[small] = _small_moment(rate, orders[small, None], log_weight, log_ratio, log_mixed)
    return moment


def _small_moment(
    rate: float, order: FloatArray, log_weight: FloatArray, log_ratio: FloatArray, log_mixed: FloatArray
) -> FloatArray:
    near = log_ratio < math.log(0.5 / rate)
    y, weight = rate * np.expm1(log_ratio[near]), log_weight[near]
    total = (np.exp(weight) * (np.expm1(order * np.log1p(y)) - order * y)).sum(axis=1)
    weight, ratio, mixed = log_weight[~near], log_ratio[~near], log_mixed[~near]
    linear = np.exp(weight) + order * rate * (np.exp(weight + ratio) - np.exp(weight))
    total += (np.exp(weight + order * mixed) - linear).sum(axis=1)
    return np.asarray(np.log1p(np.maximum(total, 0.0)), dtype=np.float64)


def _log_sum(terms: FloatArray) -> FloatArray:
    largest = terms.max(axis=1)
    return np.asarray(largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1)), dtype=np.float64)


def poisson_any(rate: float, unsampled: Mapping[int, float], orders: FloatArray, symmetric: bool = False) -> FloatArray:
    """Returns a bound for any mechanism whose unit is included with probability `rate`, from its unsampled divergences.

    Args:
        rate: the inclusion probability q in (0, 1).
        unsampled: D_k of the mechanism for every whole order k from 2 up to the largest order asked for.
        orders: the orders asked for; between integers the convexity of (α−1)·D_α gives the bound.
        symmetric: whether a map of the outcomes swaps the two worlds, as x ↦ s − x does for symmetric additive noise.

    Formal guarantees: with ℓ the likelihood ratio of the unsampled pair, E[(1 − q + qℓ)^α] is a binomial sum of the
    moments E[ℓ^k] ≤ exp((k−1)·D_k). That is one direction; in a symmetric pair the other one is never larger (proof in
    docs/accounting.md), and in general it costs a factor 3 on the terms from the third on.

    Reference: Zhu and Wang (2019), "Poisson subsampled Rényi differential privacy", Theorem 5; Mironov, Talwar, Zhang
    (2019), Theorem 5.
    """
    tail_factor = 0.0 if symmetric else math.log(3)

    def bound(order: float) -> float:
        a = int(order)
        k = np.arange(3, a + 1)
        binomial = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
        costs = np.array([(j - 1) * unsampled[int(j)] for j in k])
        tail = tail_factor + binomial + (a - k) * math.log1p(-rate) + k * math.log(rate) + costs
        first = (a - 1) * math.log1p(-rate) + math.log(a * rate - rate + 1)
        second = math.log(a * (a - 1) / 2) + 2 * math.log(rate) + (a - 2) * math.log1p(-rate) + unsampled[2]
        amplified = float(logsumexp(np.concatenate([[first, second], tail]))) / (a - 1)
        # Forgetting who was sampled never helps the observer (quasi-convexity), so the plain bound holds as well.
        return min(max(0.0, amplified), unsampled[a])

    return _between_integers(np.vectorize(bound, otypes=[float]), orders)


def whole_orders(orders: FloatArray) -> FloatArray:
    """Returns every whole order from 2 up to the largest of `orders`."""
    return np.arange(2.0, math.ceil(float(orders.max())) + 1)


def _between_integers(bound: Callable[[FloatArray], FloatArray], orders: FloatArray) -> FloatArray:
    floor, ceil = np.floor(orders), np.ceil(orders)
    share = orders - floor
    low = np.where(floor >= 2, (floor - 1) * bound(np.maximum(floor, 2.0)), 0.0)
    high = (ceil - 1) * bound(np.maximum(ceil, 2.0))
    return np.asarray(((1 - share) * low + share * high) / (orders - 1), dtype=np.float64)


def epsilon_modern(orders: FloatArray, divergence: FloatArray, delta: float) -> float:
    """Returns min over α of D_α + ln(1−1/α) − ln(αδ)/(α−1). Reference: Canonne, Kamath, Steinke (2020), Prop. 12."""
    epsilon = divergence + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return max(0.0, float(np.min(epsilon)))


def delta_modern(orders: FloatArray, divergence: FloatArray, epsilon: float) -> float:
    """Returns the δ of the same conversion, and never more than 1."""
    log_delta = (orders - 1) * (divergence - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return math.exp(min(0.0, float(np.min(log_delta))))


def epsilon_classic(orders: FloatArray, divergence: FloatArray, delta: float) -> float:
    """Returns min over α of D_α + ln(1/δ)/(α−1), the papers' conversion. Reference: Mironov (2017), Proposition 3."""
    return max(0.0, float(np.min(divergence - math.log(delta) / (orders - 1))))


def delta_classic(orders: FloatArray, divergence: FloatArray, epsilon: float) -> float:
    """Returns min over α of exp((α−1)(D_α − ε)), and never more than 1."""
    return math.exp(min(0.0, float(np.min((orders - 1) * (divergence - epsilon)))))

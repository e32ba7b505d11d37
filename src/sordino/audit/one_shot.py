"""One-shot estimation: random canary clients in one run, and how much of each is left in the model.

A canary client sends a random direction in place of an update. In d dimensions random directions are almost orthogonal,
so the cosine of a canary that was *not* in the run with anything the run produced has a law that is known exactly, and
canaries that were in it stand out by what the run gave away.

**Reference**: Andrew, Kairouz, Oh, Oprea, McMahan, Suriyakumar (2024), "One-shot Empirical Privacy Estimation for
Federated Learning", Algorithm 2 and section 4. Their ε is an estimate by a Gaussian fit. What is proved
without assumptions comes from `one_run`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from sordino.audit.counts import CONFIDENCE, at_least
from sordino.types import FloatArray


@dataclass(frozen=True)
class OneShot:
    """What the cosines of canaries say about ε."""

    canaries: int
    """How many were in the run."""
    mean: float
    stddev: float
    estimate: float
    """ε of a Gaussian fit to the cosines against N(0, 1/d): an estimate, as published, not a bound."""
    bound_if_independent: float
    """ε that is refuted below this, at 95 % confidence, if canaries were independent; they share the run's noise."""


def measure(cosines: FloatArray, dimension: int, delta: float, confidence: float = CONFIDENCE) -> OneShot:
    """Returns the published estimate and a lower bound, from the cosines of canaries that were in the run."""
    mean, stddev = float(cosines.mean()), float(cosines.std(ddof=1))
    return OneShot(
        len(cosines),
        mean,
        stddev,
        two_gaussians(mean, stddev, 1 / math.sqrt(dimension), delta),
        bound(cosines, dimension, delta, confidence),
    )


def two_gaussians(mean: float, stddev: float, null_stddev: float, delta: float) -> float:
    """Returns the ε at δ between N(mean, stddev²) and N(0, null_stddev²), the larger of both directions."""
    inside, outside = (mean, stddev), (0.0, null_stddev)
    return max(_epsilon(inside, outside, delta), _epsilon(outside, inside, delta))


def _epsilon(p: tuple[float, float], q: tuple[float, float], delta: float) -> float:
    """Returns the least ε ≥ 0 with ∫ (p − e^ε·q)₊ ≤ δ, on a fine grid; p and q are mean and standard deviation."""
    spread = 12 * max(p[1], q[1])
    x = np.linspace(min(p[0], q[0]) - spread, max(p[0], q[0]) + spread, 200_001)
    log_p, log_q, step = stats.norm.logpdf(x, *p), stats.norm.logpdf(x, *q), x[1] - x[0]

    def delta_at(epsilon: float) -> float:
        gain = -np.expm1(np.minimum(epsilon + log_q - log_p, 0.0))
        return float(np.sum(np.exp(log_p) * gain) * step)

    if delta_at(0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda e: delta_at(e) - delta, 0.0, 1e4))


def bound(cosines: FloatArray, dimension: int, delta: float, confidence: float = CONFIDENCE, cuts: int = 8) -> float:
    """Returns a lower bound on ε: shares of canaries above fixed cuts, against the exact law of an absent canary.

    Cuts are fixed beforehand, at powers of the probability that an absent canary exceeds them; the risk is divided
    among them. The null is exact, so only the canaries that were in the run have to be counted.

    **Edge cases**: canaries of one run share its noise, so they are independent only given the rest of the run: the
    bound holds as far as the cosines are exchangeable draws, which is the published method's assumption too.
    """
    levels = 10.0 ** -np.arange(0.5, 0.5 + cuts / 2, 0.5)
    each = 1 - (1 - confidence) / cuts
    found = 0.0
    for level, cut in zip(levels, null_quantile(levels, dimension), strict=True):
        tpr = at_least(int(np.count_nonzero(cosines > cut)), len(cosines), each)
        found = max(found, math.log((tpr - delta) / level) if tpr > delta else 0.0)
    return found


def null_quantile(level: FloatArray, dimension: int) -> FloatArray:
    """Returns what the cosine c of a random direction exceeds with these probabilities: (1 + c)/2 is Beta."""
    half = (dimension - 1) / 2
    return np.asarray(1 - 2 * special.betaincinv(half, half, level))

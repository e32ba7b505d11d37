"""Auditing with one training run: many canaries, each in or out by its own coin, and a guess for some of them.

**Reference**: Steinke, Nasr, Jagielski (2023), "Privacy Auditing with One (1) Training Run", Theorem 5.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from sordino.audit.counts import CONFIDENCE
from sordino.types import BoolArray, FloatArray


@dataclass(frozen=True)
class Guesses:
    """How many of the canaries were guessed, and how many of the guesses are right."""

    canaries: int
    guessed: int
    right: int


def risk(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Returns the most probable that so many right guesses can be under (ε, δ)-privacy.

    Under pure ε every guess is right with probability at most q = e^ε/(1+e^ε), whatever is known of the others, so the
    right ones are dominated by f(v) = P[Binomial(guessed, q) ≥ v]; δ adds at most 2·canaries·δ·max_i (f(v−i) − f(v))/i.
    """
    right = stats.binom(guesses.guessed, 1 / (1 + math.exp(-epsilon)))
    tail = right.sf(np.arange(guesses.right, -1, -1) - 1)  # f(v), f(v − 1), …, f(0)
    steps = np.arange(1, len(tail))
    slope = float(((tail[1:] - tail[0]) / steps).max()) if len(steps) else 0.0
    return min(1.0, float(tail[0]) + 2 * guesses.canaries * delta * slope)


def epsilon_at_least(guesses: Guesses, delta: float, confidence: float = CONFIDENCE) -> float:
    """Returns the ε below which the guesses refute everything; 0 when they refute nothing.

    **Formal guarantees**: if the run is (ε, δ)-private in each canary, the number exceeds ε with probability at most
    1 − confidence, provided that the guesses were made without knowledge of the coins.
    """
    allowed = 1 - confidence
    if risk(guesses, 0.0, delta) > allowed:
        return 0.0
    if risk(guesses, 60.0, delta) <= allowed:
        return 60.0
    return float(brentq(lambda e: risk(guesses, e, delta) - allowed, 0.0, 60.0, xtol=1e-9))


def guess(scores: FloatArray, member: BoolArray, share: float) -> Guesses:
    """Guesses that the highest-scored canaries were in and the lowest out, abstaining on all but a `share` of them."""
    each = int(len(scores) * share / 2)
    order = np.argsort(scores, kind="stable")
    right = int(np.count_nonzero(~member[order[:each]]) + np.count_nonzero(member[order[len(order) - each :]]))
    return Guesses(len(scores), 2 * each, right)


def best_bound(
    scores: FloatArray,
    member: BoolArray,
    delta: float,
    confidence: float = CONFIDENCE,
    shares: tuple[float, ...] = (0.05, 0.2, 0.5, 1.0),
) -> tuple[float, Guesses]:
    """Returns the best bound over several shares of guessed canaries; the risk is divided among them."""
    each = 1 - (1 - confidence) / len(shares)
    tried = [guess(scores, member, share) for share in shares]
    bounds = [epsilon_at_least(guesses, delta, each) for guesses in tried]
    place = int(np.argmax(bounds))
    return bounds[place], tried[place]

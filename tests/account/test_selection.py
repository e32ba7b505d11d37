"""The best of a random number of trials: the bound against the exact law of discrete mechanisms, and the draws."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logsumexp

from sordino.account.accountants import selection
from sordino.account.accountants.accountant import epsilon
from sordino.account.accountants.history import flatten
from sordino.account.accountants.rdp import divergence
from sordino.errors import AccountingError
from sordino.events import BestOfMany, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, decode, encode

ORDERS = np.array([1.5, 2.0, 4.0, 8.0, 32.0])
GRID = np.concatenate([np.linspace(1.01, 20, 60), np.geomspace(21, 1e4, 40)])


def renyi(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Returns the larger direction's divergence of two discrete laws."""
    p, q = np.log(p), np.log(q)
    one = [logsumexp(a * p + (1 - a) * q) / (a - 1) for a in orders]
    other = [logsumexp(a * q + (1 - a) * p) / (a - 1) for a in orders]
    return np.maximum(one, other)


def chances(shape: float, stop: float, most: int = 1500) -> np.ndarray:
    """Returns P(K = k), k = 1 …, from the definition of the truncated negative binomial law."""
    k = np.arange(1, most + 1)
    if shape == 0:
        return (1 - stop) ** k / (k * math.log(1 / stop))
    factors = np.cumprod((np.arange(most) + shape) / (np.arange(most) + 1))
    return (1 - stop) ** k / (stop**-shape - 1) * factors


def best_of(law: np.ndarray, shape: float, stop: float) -> np.ndarray:
    """Returns the exact law of the best of K draws; outcomes are in order of their score."""
    cdf, count = np.cumsum(law), chances(shape, stop)
    k = np.arange(1, len(count) + 1)
    above = np.array([count @ c**k for c in np.minimum(cdf, 1.0)])
    return np.diff(np.concatenate([[0.0], above]))


@pytest.mark.parametrize(("shape", "stop"), [(0.0, 0.3), (0.0, 0.02), (1.0, 0.1), (1.0, 0.5), (2.0, 0.1)])
@pytest.mark.parametrize("tilt", [0.1, 0.5, 1.0])
def test_no_selection_from_discrete_trials_exceeds_the_bound(shape: float, stop: float, tilt: float) -> None:
    generator = np.random.default_rng(3)
    for _ in range(4):
        p = generator.dirichlet(np.ones(5)) + 1e-3
        q = p * np.exp(tilt * generator.uniform(-1, 1, 5))
        p, q = p / p.sum(), q / q.sum()
        exact = renyi(best_of(p, shape, stop), best_of(q, shape, stop), ORDERS)
        bound = selection.divergence(ORDERS, renyi(p, q, ORDERS), GRID, renyi(p, q, GRID), shape, stop)
        assert (exact <= bound * (1 + 1e-9)).all()
        assert (renyi(p, q, ORDERS) < bound).all()  # choosing is never free


@pytest.mark.parametrize(("shape", "stop"), [(0.0, 0.2), (1.0, 0.2), (0.5, 0.05)])
def test_the_number_of_trials_has_the_law_and_the_mean_that_are_charged(shape: float, stop: float) -> None:
    law = chances(shape, stop)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    mean = float(law @ np.arange(1, len(law) + 1))
    assert selection.expected_trials(shape, stop) == pytest.approx(mean, rel=1e-9)
    assert selection.stop_for(shape, mean) == pytest.approx(stop, rel=1e-6)
    generator = np.random.default_rng(0)
    drawn = np.array([selection.draw_trials(shape, stop, generator) for _ in range(5_000)])
    spread = math.sqrt(float(law @ np.arange(1, len(law) + 1) ** 2) - mean**2) / math.sqrt(len(drawn))
    assert drawn.min() == 1 and abs(drawn.mean() - mean) < 5 * spread
    assert abs(drawn.mean() - 1.5 * mean) > 5 * spread and abs(drawn.mean() - mean / 1.5) > 5 * spread
    assert (drawn == 1).mean() == pytest.approx(law[0], abs=0.02)


def test_many_trials_cost_about_as_much_as_a_few() -> None:
    trial = SelfComposedDpEvent(GaussianDpEvent(10.0), 40)
    alone = epsilon(trial, 1e-5)
    costs = [epsilon(BestOfMany(trial, 0.0, selection.stop_for(0.0, n)), 1e-5) for n in (2, 10, 100, 1000)]
    assert alone < costs[0] and all(a < b for a, b in pairwise(costs))
    assert costs[2] < epsilon(SelfComposedDpEvent(trial, 100), 1e-5) / 4


def test_the_papers_theorem_to_the_digit_for_a_plain_gaussian() -> None:
    """At λ = λ̂ the theorem reads (2 − 1/λ)·ρλ + ln(1/γ)/λ + ln(E K)/(λ − 1) for η = 0."""
    gamma, rho = 0.1, 0.5 / 9.0
    expected = (1 / gamma - 1) / math.log(1 / gamma)
    for order in (3.0, 11.0):
        at_same = (2 - 1 / order) * rho * order + math.log(1 / gamma) / order + math.log(expected) / (order - 1)
        cost = float(
            divergence(flatten(BestOfMany(GaussianDpEvent(3.0), 0.0, gamma)), np.array([order]), "add_remove")[0]
        )
        assert cost <= at_same * (1 + 1e-9)


def test_the_event_is_written_down_and_read_back() -> None:
    event = BestOfMany(SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 30), 0.0, 0.2)
    assert decode(encode(event)) == event and hash(decode(encode(event))) == hash(event)
    assert epsilon({event: 2}, 1e-5) > epsilon(event, 1e-5) > epsilon(event.event, 1e-5)


@pytest.mark.parametrize(("shape", "stop"), [(-1.0, 0.5), (0.0, 0.0), (0.0, 1.0), (math.inf, 0.5)])
def test_laws_that_are_none_are_refused(shape: float, stop: float) -> None:
    with pytest.raises(AccountingError, match="shape"):
        selection.expected_trials(shape, stop)
    with pytest.raises(AccountingError, match="choose nothing"):
        selection.stop_for(0.0, 1)

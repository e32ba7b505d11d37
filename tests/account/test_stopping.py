"""Runs that end by what they released, or by who can pay: prices that hold, and an attack on the one that does not."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.accountant import price
from sordino.account.ledger.leaving import chance_over_schedule
from sordino.errors import AccountingError
from sordino.events import GaussianDpEvent


def test_stopping_at_a_target_breaks_the_price_of_the_path_and_not_that_of_the_plan():
    """One release at a time until the loss is above ε of the path so far: the chance of that is what δ must cover."""
    rng, rounds, noise, delta, paths = np.random.default_rng(0), 60, 4.0, 1e-2, 100_000
    spent = np.arange(1, rounds + 1) / noise**2
    path = np.array([gaussian.epsilon_of(math.sqrt(mu2), delta) for mu2 in spent])
    loss = np.cumsum(rng.normal(1 / (2 * noise**2), 1 / noise, (paths, rounds)), axis=1)
    first = np.argmax(loss > path + 0.3, axis=1)
    hit = (loss > path + 0.3).any(axis=1)
    end = np.where(hit, first, rounds - 1)
    ended = loss[np.arange(paths), end]
    attained = np.maximum(0, 1 - np.exp(path[end] - ended)).mean()
    assert attained > 3 * delta  # certified with δ = 0.01 by the path, which is false
    plan = price({GaussianDpEvent(noise): rounds}, "pld", "add_remove")
    true = np.maximum(0, 1 - np.exp(plan.epsilon(delta) - ended)).mean()
    assert true <= delta * 1.05


def simulate(left, minimum, rates, costs, trials, rng):
    """How often fewer than `minimum` of the others could pay for some round, client 0 left aside."""
    few = np.zeros(trials, bool)
    have = np.tile(left[1:], (trials, 1)).astype(float)
    for rate, cost in zip(rates, costs, strict=True):
        able = have >= cost - 1e-12
        few |= able.sum(axis=1) < minimum
        have -= cost * (able & (rng.random(have.shape) < rate))
    return few.mean()


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_above_what_happens(seed):
    rng = np.random.default_rng(seed)
    left = rng.uniform(3, 6, 12)
    costs = np.linspace(0.4, 1.4, 8)
    rates = rng.uniform(0.1, 0.5, 8)
    for minimum in (3, 6, 9):
        bound = chance_over_schedule(left, minimum, rates, costs)
        assert simulate(left, minimum, rates, costs, 40_000, rng) <= bound + 0.005


def test_dearer_rounds_later_are_seen_and_equal_ones_agree_with_the_binomial():
    """F9: θ < 1. Priced like the first round, the run seems to end rarely; over the schedule it does not."""
    left, rates = np.full(40, 10.0), [0.3] * 20
    constant = chance_over_schedule(left, 5, rates, [1.0] * 20)
    # Bin(20, 0.3) ≥ 10 coins use a client up: so many of the 39 others that fewer than 5 are left
    same = float(binom.sf(40 - 5 - 1, 39, binom.sf(9, 20, 0.3)))
    assert constant <= 20 * same + 1e-12
    # At the last round a client cannot pay when 10 of 19 coins came up: one tail of the sum that was added up.
    last = float(binom.sf(40 - 5 - 1, 39, binom.sf(9, 19, 0.3)))
    assert last <= constant
    assert chance_over_schedule(left, 5, rates, [1.0 / 0.9**t for t in range(20)]) > 1e3 * max(constant, 1e-12)


def test_no_credit_where_nothing_is_proved():
    assert chance_over_schedule(np.full(5, 1.0), 4, [0.9] * 5, [1.0] * 5) == 1
    assert chance_over_schedule(np.full(5, 1.0), 4, [0.1], [math.inf]) == 1
    assert chance_over_schedule(np.full(5, 10.0), 4, [0.9] * 5, [1.0] * 5) == 0
    spent_before = chance_over_schedule(np.array([10.0] * 3 + [0.5] * 2), 4, [0.5], [1.0])
    assert spent_before == 1  # two spent too much in earlier runs
    with pytest.raises(AccountingError):
        chance_over_schedule(np.full(5, 1.0), 6, [0.9], [1.0])
    with pytest.raises(AccountingError):
        chance_over_schedule(np.full(5, 1.0), 2, [1.9], [1.0])

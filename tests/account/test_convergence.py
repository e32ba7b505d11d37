"""The geometric paper's bound: the formula against its recursion, M* against all M."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.account.accountants.published import yuan_sigma, yuan_sum
from sordino.account.plan.convergence import ConvergenceBound, LossConstants
from sordino.account.plan.printed_convergence import PrintedConvergence
from sordino.errors import AccountingError

BASE = PrintedConvergence(
    iterations=150,
    clients=100,
    cohort=10,
    theta=1.05,
    epsilon=10,
    delta=1e-3,
    sensitivity=10 / 600,
    learning_rate=0.05,
    smoothness=10.0,
    divergence=0.3,
    gap=2.0,
)


@pytest.mark.parametrize("theta", [0.9, 0.95, 1.0, 1.05, 1.1])
def test_the_bound_is_the_recursion_it_comes_from(theta):
    """Eq. (39) step by step: gap ← 𝒜·gap + (L/2)·ϑ^m·σ², with σ from Eq. (8)."""
    problem = replace(BASE, theta=theta, divergence=0.0)
    for aggregations in (1, 5, 30):
        sigma = yuan_sigma(problem.sensitivity, 10, 1e-3, 0.1, yuan_sum(theta, aggregations))
        gap = problem.gap
        for m in range(aggregations):
            gap = problem.decay * gap + problem.smoothness / 2 * theta**m * sigma**2
        assert problem.bound(np.array([aggregations]))[0] == pytest.approx(gap, rel=1e-9)


def test_the_symbols():
    spread = 90 * 1 / (10 * 99) + 9 / (100 * 10 * 99)
    assert BASE.phi == pytest.approx(0.05**2 * 10 / 2 * spread - 0.05)
    assert BASE.decay == pytest.approx(1 + 2 * BASE.phi)
    assert BASE.drift(np.array([5.0]))[0] == pytest.approx(0.3 / 10 * (1.5**5 - 1) - 0.05 * 0.3 * 5)
    assert BASE.drift(np.array([0.0, 1.0])) == pytest.approx([0, 0], abs=1e-15)


@given(
    st.sampled_from([0.85, 0.9, 0.95, 1.0, 1.02, 1.1]),
    st.floats(0.5, 50),
    st.floats(0, 1),
    st.floats(0.005, 0.1),
    st.integers(10, 400),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_optimum_is_the_best_of_all_and_the_slope_vanishes_there(theta, epsilon, divergence, rate, steps, printed):
    problem = replace(
        BASE, theta=theta, epsilon=epsilon, divergence=divergence, learning_rate=rate, iterations=steps, printed=printed
    )
    best, root = problem.optimum()
    every = [float(problem.bound(np.array([float(m)]))[0]) for m in range(1, steps + 1)]
    assert every[best - 1] == min(every)
    if root is not None:
        assert abs(root - best) <= 1
        assert abs(problem.slope(root)) <= 1e-6 * max(1.0, abs(problem.slope(max(1.0, root - 0.5))))


@pytest.mark.parametrize("theta", [0.9, 1.0, 1.05])
@pytest.mark.parametrize("printed", [False, True])
def test_the_slope_is_the_derivative(theta, printed):
    problem = replace(BASE, theta=theta, printed=printed)
    for m in (5.0, 20.0, 60.0):
        step = 1e-4
        ahead, behind = problem.bound(np.array([m + step])), problem.bound(np.array([m - step]))
        assert problem.slope(m) == pytest.approx(float((ahead - behind)[0]) / (2 * step), rel=1e-4)


def test_the_printed_denominator_would_let_constant_noise_vanish():
    printed, derived = replace(BASE, theta=1.0, printed=True), replace(BASE, theta=1.0)
    m = np.array([30.0])
    assert printed.bound(m)[0] == pytest.approx(replace(printed, sensitivity=1e-12).bound(m)[0])
    assert derived.bound(m)[0] > printed.bound(m)[0]
    assert derived.bound(m)[0] == pytest.approx(replace(BASE, theta=1 + 1e-7).bound(m)[0], rel=1e-4)


def test_where_decay_and_schedule_meet():
    meeting = replace(BASE, theta=BASE.decay, divergence=0.0)
    beside = replace(meeting, theta=BASE.decay + 1e-6)
    assert meeting.bound(np.array([20.0]))[0] == pytest.approx(beside.bound(np.array([20.0]))[0], rel=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.2},
        {"learning_rate": -1.0},
        {"theta": 0.0},
        {"epsilon": math.nan},
        {"delta": 1.0},
        {"cohort": 0},
        {"cohort": 101},
        {"clients": 1},
        {"polyak": 100.0},
        {"gap": math.inf},
        {"divergence": -1.0},
        {"iterations": 0},
    ],
)
def test_bad_input(change):
    with pytest.raises(AccountingError):
        replace(BASE, **change)


LOSS = LossConstants(gap=2.3, smoothness=1.0, polyak=0.1)


def a_bound(theta, rate=0.5, loss=LOSS):
    return ConvergenceBound(loss, 400, 100, 10.0, theta, rate)


@settings(max_examples=40, deadline=None)
@given(theta=st.floats(1.0, 1.2), unit=st.floats(1e-6, 1e-2))
def test_the_best_number_of_aggregations_is_where_the_bound_turns(theta, unit):
    """Against all M, for noise as a caller supplies it: proportional to the precisions that a budget must pay for."""
    bound = a_bound(theta)
    best = bound.best(400, lambda m: unit * yuan_sum(theta, m))
    every = [float(bound.value(np.array(m), np.array(unit * yuan_sum(theta, m)))) for m in range(1, 401)]
    assert best.bound == pytest.approx(min(every))
    assert best.aggregations == 1 + every.index(min(every))
    assert best.local_steps == max(1, round(400 / best.aggregations))
    assert bound.best(400, lambda m: 10 * unit * yuan_sum(theta, m)).aggregations <= best.aggregations


def test_few_plans_are_asked_for():
    asked = []
    a_bound(1.05).best(400, lambda m: asked.append(m) or 1e-4 * m)
    assert len(asked) == len(set(asked)) < 120


def test_drift_counts_in_the_bound_and_fewer_aggregations_drift_farther():
    drifting = a_bound(1.05, 0.1, replace(LOSS, divergence=0.2, lipschitz=3.0))
    still = a_bound(1.05, 0.1)
    m = np.array([50.0, 200.0])
    apart = drifting.value(m, np.zeros(2)) - still.value(m, np.zeros(2))
    assert apart == pytest.approx(3.0 * drifting.drift(400 / m)) and apart[0] > apart[1] > 0

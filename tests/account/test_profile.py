"""Profiles: sampling against integrals, cohorts of fixed size against every cohort there is, grids against curves."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sordino.account.accountants import pld, profile
from sordino.account.accountants.accountant import price
from sordino.account.accountants.composed import ComposedLosses
from sordino.events import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent

X = np.linspace(-40, 40, 40_001)
STEP = X[1] - X[0]
KINK = 1e-6
"""What a sum over the grid may miss of the integral of a function with a kink: of the order of STEP²."""
EPSILONS = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 2.0])


def hockey(p, q, epsilon):
    return float(np.maximum(0.0, p - math.exp(epsilon) * q).sum() * STEP)


@given(st.floats(0.01, 0.95), st.floats(0.2, 2.0))
@settings(max_examples=15, deadline=None)
def test_poisson_profiles_are_the_integrals(rate, separation):
    with_, without = norm.pdf(X, separation), norm.pdf(X)
    mixed = (1 - rate) * without + rate * with_
    found = profile.poisson(rate, profile.gaussian(separation))
    for epsilon, forward, backward in zip(EPSILONS, found.forward(EPSILONS), found.backward(EPSILONS), strict=True):
        assert forward == pytest.approx(hockey(mixed, without, epsilon), abs=KINK)
        assert backward == pytest.approx(hockey(without, mixed, epsilon), abs=KINK)


@given(st.floats(0.01, 0.95), st.floats(0.2, 2.0))
@settings(max_examples=15, deadline=None)
def test_replaced_profiles_are_the_integrals_and_the_general_bound_is_above(rate, separation):
    one, other = ((1 - rate) * norm.pdf(X) + rate * norm.pdf(X, sign * separation / 2) for sign in (1, -1))
    found = profile.replaced_gaussian(rate, separation).forward(EPSILONS)
    half, whole = profile.gaussian(separation / 2).forward, profile.gaussian(separation).forward
    above = profile.overlapping(rate, (half, whole), (half, whole)).forward(EPSILONS)
    for epsilon, delta, bound in zip(EPSILONS, found, above, strict=True):
        assert delta == pytest.approx(hockey(one, other, epsilon), abs=KINK)
        assert bound >= delta - 1e-12


def cohort_density(values: list[float], size: int, stddev: float) -> np.ndarray:
    """The density of a noisy sum over a uniformly random cohort, by going through all cohorts."""
    cohorts = list(itertools.combinations(values, size))
    return sum(norm.pdf(X, sum(cohort), stddev) for cohort in cohorts) / len(cohorts)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace", "add_remove"])
@pytest.mark.parametrize(("population", "size"), [(4, 1), (5, 2), (5, 4), (3, 3), (6, 3)])
@pytest.mark.parametrize("noise", [0.8, 2.0])
def test_fixed_cohorts_never_exceed_their_profile(adjacency, population, size, noise):
    """All contributions in {−1, 0, 1}, all others, all cohorts: what an outsider can tell, by integration."""
    event = SampledWithoutReplacementDpEvent(
        population, size, GaussianDpEvent(noise / 2 if adjacency == "replace" else noise)
    )
    found = pld.profile_of(event, adjacency)
    forward, backward = found.forward(EPSILONS), found.backward(EPSILONS)
    worst = np.zeros(len(EPSILONS))
    for others in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), population - 1):
        changed = {"zero_out": [0.0], "replace": [-1.0, 0.0], "add_remove": []}[adjacency]
        with_ = cohort_density([1.0, *others], size, noise)
        kept = [[one, *others] for one in changed] or [list(others)]
        for values in kept:
            if len(values) < size:
                continue
            without = cohort_density(values, size, noise)
            for k, epsilon in enumerate(EPSILONS):
                assert hockey(with_, without, epsilon) <= forward[k] + KINK
                assert hockey(without, with_, epsilon) <= backward[k] + KINK
                worst[k] = max(worst[k], hockey(with_, without, epsilon))
    if adjacency == "add_remove" and size < population:
        # u_i = 1 and everybody else −1 attains the bound: z would be false, z/2 is right.
        np.testing.assert_allclose(worst, forward, atol=KINK)
        assert worst[0] > profile.poisson(size / population, profile.gaussian(1 / noise)).forward(np.zeros(1))[0] * 1.2


def test_the_review_s_cohorts_cost_what_is_proved():
    """Rényi: Wang, Balle and Kasiviswanathan at z/2 (1.483, 2.493). Loss distributions: less than half of that."""
    for population, size, z, by_renyi, tight in [(10_000, 100, 2.0, 1.4825, 0.6748), (1_000, 50, 4.0, 2.4925, 0.7618)]:
        event = SampledWithoutReplacementDpEvent(population, size, GaussianDpEvent(z))
        assert price({event: 100}, "rdp", "zero_out").epsilon(1e-5) == pytest.approx(by_renyi, abs=1e-3)
        assert price({event: 100}, "pld", "zero_out").epsilon(1e-5) == pytest.approx(tight, abs=1e-3)
    wide = SampledWithoutReplacementDpEvent(10, 9, GaussianDpEvent(10.0))
    assert price({wide: 20}, "pld", "add_remove").epsilon(1e-5) > 3.44  # what 9 of 10 clients attained, F1


@pytest.mark.parametrize("q", [0.02, 0.4])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_grids_keep_the_profile_at_their_points_and_are_above_between(q, adjacency):
    reading = pld.profile_of(PoissonSampledDpEvent(q, GaussianDpEvent(1.5)), adjacency)
    ways = [ComposedLosses([(way, 1)], 1e-2) for way in profile.both_losses(reading, 1e-2)]

    def delta(epsilon: float) -> float:
        return max(way.delta(epsilon) for way in ways)

    points = np.arange(1, 60) * 1e-2
    exact = np.maximum(reading.forward(points), reading.backward(points))
    told = np.array([delta(float(e)) for e in points])
    np.testing.assert_allclose(told, exact, rtol=1e-6, atol=1e-13)
    between = points + 5e-3
    told = np.array([delta(float(e)) for e in between])
    assert np.all(told >= np.maximum(reading.forward(between), reading.backward(between)) - 1e-13)


def test_bounds_that_are_not_convex_are_made_so_from_below():
    """A bump in the bound is taken off: the truth is convex, and passes below it."""
    epsilon = np.linspace(-1, 1, 201)
    true = profile.gaussian(1.0).hockey(epsilon)
    bumped = true + np.where(np.abs(epsilon - 0.3) < 0.05, 0.02, 0.0)
    made = profile._convex(epsilon, bumped)
    assert np.all(made >= true - 1e-12)
    assert made.max() <= bumped.max() and np.all(made <= np.minimum.accumulate(bumped) + 1e-12)
    slopes = np.diff(made) / np.diff(np.exp(epsilon))
    assert np.all(np.diff(slopes) >= -1e-9)


def test_laplace_is_its_closed_form():
    with_, without = (np.exp(-abs(X - c) / 2) / 4 for c in (1, 0))
    found = pld.profile_of(LaplaceDpEvent(2.0), "zero_out").forward(EPSILONS)
    for epsilon, delta in zip(EPSILONS, found, strict=True):
        assert delta == pytest.approx(hockey(with_, without, epsilon), abs=1e-6)


@pytest.mark.parametrize("noise", [0.0131, 0.0145, 0.02, 0.05, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("rate", [1e-4, 0.5, 0.999])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_a_threshold_attains_no_more_than_is_told_however_little_noise_there_is(noise, rate, adjacency):
    """Between hardly any noise and much of it: whoever waits for a large value is never better than the price."""
    apart = 1 / noise
    here, there = (apart / 2, -apart / 2) if adjacency == "replace" else (apart, 0.0)
    attained = 0.0
    for threshold in here + np.linspace(-3, 6, 400):
        with_ = rate * norm.sf(threshold - here) + (1 - rate) * norm.sf(threshold)
        parts = [math.log(rate) + norm.logsf(threshold - there), math.log1p(-rate) + norm.logsf(threshold)]
        if with_ > 1e-5:
            attained = max(attained, math.log(with_ - 1e-5) - float(np.logaddexp(*parts)))
    told = price(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), adjacency=adjacency).epsilon(1e-5)
    assert attained <= told * (1 + 1e-9)
    if noise >= 0.05:
        assert told <= attained * 1.001 + 1e-2

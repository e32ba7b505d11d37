"""The closed form of plain Gaussians, against numerical integration and published numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.accountant import price
from sordino.events import CorrelatedGaussian, GaussianDpEvent

multipliers = st.floats(0.3, 30)
deltas = st.floats(-9, -2).map(lambda power: 10**power)


def hockey_stick(mu: float, epsilon: float) -> float:
    """∫ max(0, p − e^ε·q) for two unit normals at distance μ, by quadrature: an oracle without Φ."""

    def excess(x: float) -> float:
        return max(0.0, norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x))

    crossing = epsilon / mu + mu / 2
    return quad(excess, crossing, crossing + 40, limit=500, epsabs=1e-15)[0]


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_delta_is_the_hockey_stick_divergence(mu, epsilon):
    assert gaussian.delta_of(mu, epsilon) == pytest.approx(hockey_stick(mu, epsilon), rel=1e-7, abs=1e-14)


@pytest.mark.parametrize(("noise", "epsilon"), [(0.5, 9.9973), (1, 4.3772), (2, 1.9931), (4, 0.9263)])
def test_one_gaussian(noise, epsilon):
    assert round(price(GaussianDpEvent(noise)).epsilon(1e-5), 4) == epsilon


@given(multipliers, deltas)
@settings(deadline=None)
def test_epsilon_and_delta_invert_each_other(noise, delta):
    curve = price(GaussianDpEvent(noise), "exact")
    epsilon = curve.epsilon(delta)
    assert curve.delta(epsilon) <= delta * (1 + 1e-8)
    if epsilon > 1e-3:
        assert curve.delta(epsilon * 0.999) > delta


@given(st.lists(multipliers, min_size=1, max_size=6))
@settings(deadline=None)
def test_multipliers_compose_by_their_precisions(noises):
    together = price([GaussianDpEvent(noise) for noise in noises], "exact")
    one = GaussianDpEvent(sum(noise**-2 for noise in noises) ** -0.5)
    assert together.epsilon(1e-5) == pytest.approx(price(one, "exact").epsilon(1e-5), rel=1e-9, abs=1e-12)


def test_correlated_gaussian_costs_one_gaussian():
    assert price({CorrelatedGaussian(0.7): 5}).epsilon(1e-5) == price({GaussianDpEvent(0.7): 5}).epsilon(1e-5)


@given(st.floats(0.01, 20), deltas)
@settings(deadline=None)
def test_the_filters_capacity_is_the_largest_separation_in_budget(epsilon, delta):
    mu = gaussian.separation_for(epsilon, delta)
    assert gaussian.delta_of(mu, epsilon) <= delta < gaussian.delta_of(mu * 1.0001, epsilon)


def test_many_separations_at_once_agree_with_one_by_one():
    mu = np.concatenate([[0.0, 1e-9], np.linspace(0.01, 12, 500)])
    together = gaussian.epsilons_of(mu, 1e-6)
    alone = [gaussian.epsilon_of(float(value), 1e-6) for value in mu]
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-9)


def test_huge_costs_stay_finite():
    assert price({GaussianDpEvent(0.01): 1000}).epsilon(1e-5) == pytest.approx(1000 / 0.02 * 1 / 0.01, rel=0.1)

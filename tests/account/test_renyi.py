"""Rényi divergences against direct summation and integration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ive
from scipy.stats import norm

from sordino.account.accountants import renyi

orders = np.array([1.1, 1.5, 2.0, 2.7, 4.0, 9.3, 20.0, 63.0])


def integrate(p, q, order, low, high, points):
    def integrand(x):
        return np.exp(order * p(x) + (1 - order) * q(x))

    total = quad(integrand, low, high, limit=1000, points=points, epsabs=0, epsrel=1e-11)[0]
    return np.log(total) / (order - 1)


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.1, 0.7), (0.5, 3.0), (1e-3, 0.4), (0.9, 1.0)])
def test_sampled_gaussian_is_the_integral(rate, noise):
    def mixture(x):
        return np.logaddexp(np.log1p(-rate) + norm.logpdf(x, 0, noise), np.log(rate) + norm.logpdf(x, 1, noise))

    found = renyi.poisson_gaussian(rate, noise, orders[:6])
    for order, value in zip(orders[:6], found, strict=True):
        peaks = [0, 1, order]
        wanted = integrate(mixture, lambda x: norm.logpdf(x, 0, noise), order, -12 * noise, order + 12 * noise, peaks)
        assert value == pytest.approx(wanted, rel=1e-6)


@given(st.floats(1e-6, 0.999), st.floats(0.05, 20))
@settings(max_examples=60, deadline=None)
def test_whole_orders_agree_with_the_binomial_sum(rate, noise):
    whole = np.array([2.0, 3.0, 8.0, 33.0])
    summed = [renyi._binomial_moment(rate, noise, int(a)) / (a - 1) for a in whole]
    found = renyi.poisson_gaussian(rate, noise, whole)
    np.testing.assert_allclose(found, np.minimum(summed, whole / (2 * noise**2)), rtol=1e-6, atol=1e-13)


@given(st.floats(1e-4, 0.99), st.floats(0.3, 10))
@settings(max_examples=40, deadline=None)
def test_sampling_never_costs_more_and_order_never_costs_less(rate, noise):
    found = renyi.poisson_gaussian(rate, noise, renyi.MODERN_ORDERS)
    assert np.all(found <= renyi.gaussian(noise, renyi.MODERN_ORDERS) * (1 + 1e-12))
    assert np.all(np.diff(found[np.argsort(renyi.MODERN_ORDERS)]) >= -1e-12 * found.max())


@given(st.floats(0.01, 0.5), st.floats(0.8, 5))
@settings(max_examples=20, deadline=None)
def test_the_general_sampling_bound_is_above_the_sampled_gaussian(rate, noise):
    whole = renyi.whole_orders(np.array([20.0]))
    costs = dict(zip(whole.astype(int).tolist(), renyi.gaussian(noise, whole).tolist(), strict=True))
    grid = np.array([1.3, 2.0, 3.5, 8.0, 20.0])
    bound = renyi.poisson_any(rate, costs, grid)
    exact = renyi.poisson_gaussian(rate, noise, grid)
    assert np.all(bound >= exact * (1 - 1e-9))
    assert np.all(bound <= renyi.gaussian(noise, np.ceil(grid)) * (1 + 1e-9))


def skellam_divergence(variance: float, shift: int, order: float) -> float:
    """Σ P^α Q^{1−α} for two Skellam distributions at whole distance, summed directly."""
    k = np.arange(-int(60 * variance**0.5 + 60), int(60 * variance**0.5 + 60) + abs(shift))
    with np.errstate(divide="ignore"):
        p, q = np.log(ive(np.abs(k), variance)), np.log(ive(np.abs(k - shift), variance))
    inside = np.isfinite(p) & np.isfinite(q)
    terms = order * p[inside] + (1 - order) * q[inside]
    return float(np.log(np.exp(terms - terms.max()).sum()) + terms.max()) / (order - 1)


@pytest.mark.parametrize("variance", [4.0, 30.0, 200.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_skellam_bound_is_above_the_true_divergence_and_close(variance, shift):
    grid = np.array([1.2, 2.0, 2.5, 3.0, 6.0, 10.0])
    bound = renyi.skellam(variance, shift, shift, grid)
    true = [skellam_divergence(variance, shift, float(a)) for a in grid]
    assert np.all(bound >= true)
    # At large variance Skellam noise is all but Gaussian, and between whole orders the bound interpolates.
    if variance >= 30:
        assert np.all(bound[1:] <= np.array(true)[1:] * 1.35)


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_laplace_is_the_integral(noise):
    def log_density(centre):
        return lambda x: -abs(x - centre) / noise - np.log(2 * noise)

    for order, value in zip(orders[:6], renyi.laplace(noise, orders[:6]), strict=True):
        wanted = integrate(log_density(0), log_density(1), order, -60 * noise, 1 + 60 * noise, [0, 1])
        assert value == pytest.approx(wanted, rel=1e-7)


def test_modern_conversion_beats_the_classic_one_and_both_invert():
    costs = renyi.gaussian(2.0, renyi.MODERN_ORDERS)
    modern = renyi.epsilon_modern(renyi.MODERN_ORDERS, costs, 1e-5)
    classic = renyi.epsilon_classic(renyi.MODERN_ORDERS, costs, 1e-5)
    assert modern < classic
    assert renyi.delta_modern(renyi.MODERN_ORDERS, costs, modern) == pytest.approx(1e-5)
    assert renyi.delta_classic(renyi.MODERN_ORDERS, costs, classic) == pytest.approx(1e-5)

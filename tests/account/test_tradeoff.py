"""Attack numbers of a curve, against the closed forms of Gaussians and randomised response."""

import math

import pytest
from scipy.stats import norm

from sordino.account.accountants.accountant import Curve, price
from sordino.account.accountants.tradeoff import RATES, fit, tradeoff
from sordino.events import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent, Unbounded


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0])
def test_gaussians_are_their_closed_forms(mu):
    found = tradeoff(price(GaussianDpEvent(1 / mu)))
    assert found.advantage == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=1e-9)
    for rate in RATES:
        missed, exact = found.false_negative_rate(rate), norm.cdf(norm.ppf(1 - rate) - mu)
        assert missed <= exact + 1e-12
        assert missed == pytest.approx(exact, abs=2e-3)
    best = fit(found)
    assert best.mu == pytest.approx(mu, rel=1e-6)
    assert best.regret < 2e-3


def test_a_sampled_gaussian_is_not_far_from_one_after_many_rounds():
    curve = price({PoissonSampledDpEvent(0.02, GaussianDpEvent(1.0)): 1500})
    found = tradeoff(curve)
    best = fit(found)
    above = price(GaussianDpEvent(1 / best.mu))
    assert all(above.delta(float(e)) >= d * (1 - 1e-6) - 1e-10 for e, d in zip(found.epsilon, found.delta, strict=True))
    # The central limit: q·√(T·(e^{1/z²} − 1)) is where the bulk of the curve is, and the fit is above it.
    assert best.mu >= 0.02 * math.sqrt(1500 * (math.e - 1)) * 0.98
    assert best.regret < 0.05


def test_randomised_response_is_poorly_described_by_a_gaussian():
    """One Laplace release: its curve ends at ε = 1, a Gaussian's never does."""
    best = fit(tradeoff(price(LaplaceDpEvent(0.25), "pure")))
    assert best.regret > 0.01


def test_laplace_error_rates():
    """f(a) of two Laplace distributions at distance 1, scale b: 1 − e^{1/b}·a for a < e^{−1/b}/2 (Dong, Roth, Su)."""
    found = tradeoff(price(LaplaceDpEvent(1.0)))
    assert found.advantage == pytest.approx(1 - math.exp(-0.5), abs=1e-6)
    assert found.false_negative_rate(0.01) == pytest.approx(1 - math.e * 0.01, abs=1e-3)


def test_edges():
    assert RATES == (0.001, 0.01, 0.1)
    nothing = tradeoff(price({}))
    assert (nothing.advantage, fit(nothing).mu, nothing.false_negative_rate(0.1)) == (0, 0, pytest.approx(0.9))
    everything = tradeoff(price(Unbounded("why")))
    assert (everything.advantage, fit(everything).mu) == (1, math.inf)
    assert everything.false_negative_rate(0.0) == 0
    assert isinstance(price(GaussianDpEvent(1.0)), Curve)

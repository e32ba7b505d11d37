"""Calibration: to a millionth in ε, never above the budget, on the real accountant."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.account.accountants.accountant import price
from sordino.account.accountants.calibrate import largest_rounds, noise_multiplier_for
from sordino.errors import AccountingError
from sordino.events import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent


def sampled(rate, rounds):
    return lambda z: {PoissonSampledDpEvent(rate, GaussianDpEvent(z)): rounds}


@given(st.floats(0.05, 50), st.sampled_from([1e-3, 1e-5, 1e-8]), st.integers(1, 5000))
@settings(max_examples=60, deadline=None)
def test_plain_gaussians(epsilon, delta, rounds):
    def history(z):
        return {GaussianDpEvent(z): rounds}

    noise = noise_multiplier_for(epsilon, delta, history)
    assert epsilon - 1e-6 <= price(history(noise)).epsilon(delta) <= epsilon


@given(st.floats(0.2, 20), st.floats(0.01, 0.6), st.integers(1, 3000))
@settings(max_examples=25, deadline=None)
def test_sampled_gaussians_by_renyi(epsilon, rate, rounds):
    noise = noise_multiplier_for(epsilon, 1e-5, sampled(rate, rounds), "rdp")
    assert epsilon - 1e-6 <= price(sampled(rate, rounds)(noise), "rdp").epsilon(1e-5) <= epsilon


@pytest.mark.parametrize(("epsilon", "rate", "rounds"), [(1.0, 0.05, 50), (8.0, 0.3, 10)])
def test_sampled_gaussians_by_loss_distributions(epsilon, rate, rounds):
    noise = noise_multiplier_for(epsilon, 1e-5, sampled(rate, rounds))
    assert epsilon - 1e-6 <= price(sampled(rate, rounds)(noise)).epsilon(1e-5) <= epsilon
    assert noise < noise_multiplier_for(epsilon, 1e-5, sampled(rate, rounds), "rdp")


def test_a_whole_heterogeneous_schedule():
    def history(z):
        return [GaussianDpEvent(z * 0.95 ** (m / 2)) for m in range(30)]

    noise = noise_multiplier_for(10.0, 1e-3, history)
    assert 10 - 1e-6 <= price(history(noise)).epsilon(1e-3) <= 10


def test_budgets_that_cannot_be_met_or_need_no_noise():
    with pytest.raises(AccountingError, match="cannot be met"):
        noise_multiplier_for(0.0, 1e-5, lambda z: GaussianDpEvent(z))
    with pytest.raises(AccountingError, match="more epsilon"):
        noise_multiplier_for(1e-4, 1e-5, lambda z: {GaussianDpEvent(min(z, 10.0)): 1})
    with pytest.raises(AccountingError):
        noise_multiplier_for(1.0, 2.0, lambda z: GaussianDpEvent(z))
    assert noise_multiplier_for(1e9, 1e-5, lambda z: GaussianDpEvent(z)) < 1e-3
    assert noise_multiplier_for(3.0, 1e-5, lambda z: LaplaceDpEvent(z), "pure") == pytest.approx(1 / 3, rel=1e-6)


@given(st.floats(0.3, 10), st.floats(1, 20))
@settings(max_examples=30, deadline=None)
def test_largest_rounds_is_the_edge(epsilon, noise):
    def history(rounds):
        return {GaussianDpEvent(noise): rounds}

    most = largest_rounds(epsilon, 1e-5, history)
    assert most == 0 or price(history(most)).epsilon(1e-5) <= epsilon
    assert price(history(most + 1)).epsilon(1e-5) > epsilon


def test_largest_rounds_respects_its_limit():
    assert largest_rounds(1e6, 1e-5, lambda n: {GaussianDpEvent(5.0): n}, limit=1000) == 1000
    assert largest_rounds(1.0, 1e-5, lambda n: {GaussianDpEvent(5.0): n}, limit=3) <= 3

"""δ far below what floating point tells from a whole of 1: no ε is told that an attack beats."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from sordino.account.accountants.accountant import price
from sordino.account.accountants.composed import ComposedLosses
from sordino.account.accountants.pld import profile_of
from sordino.account.accountants.profile import both_losses
from sordino.events import DpEvent, GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent

SMALL = (1e-8, 1e-10, 1e-12, 1e-14)


def sampled(rate: float, noise: float) -> PoissonSampledDpEvent:
    return PoissonSampledDpEvent(rate, GaussianDpEvent(noise))


def attained(rate: float, noise: float, rounds: int, delta: float) -> float:
    """ε of an attack that guesses "there" once any of the rounds shows more than a threshold, the best of many."""

    def any_of(log_tail: float) -> float:
        return -math.expm1(rounds * math.log1p(-math.exp(log_tail)))

    found = 0.0
    for threshold in (noise * k / 20 for k in range(20, 300)):
        without = norm.logsf(threshold / noise)
        with_ = math.log((1 - rate) * math.exp(without) + rate * norm.sf((threshold - 1) / noise))
        there, absent = any_of(with_), any_of(without)
        if there > delta and absent > 0:
            found = max(found, math.log((there - delta) / absent))
    return found


@pytest.mark.parametrize(
    ("rate", "noise", "rounds"), [(3.5e-5, 0.5774871943631218, 3822), (3e-5, 0.5, 30_000), (1e-6, 0.45, 300_000)]
)
def test_no_epsilon_is_told_that_an_attack_beats(rate: float, noise: float, rounds: int) -> None:
    curve = price({sampled(rate, noise): rounds})
    assert curve.accountant == "pld"
    for delta in SMALL:
        least = attained(rate, noise, rounds, delta)
        assert least <= curve.epsilon(delta) <= least + 0.2  # and the grid is not far above the attack


def test_no_delta_is_negative_or_below_what_one_round_costs() -> None:
    event = sampled(3e-5, 0.5)
    many, one = price({event: 30_000}), price(event)
    for epsilon in (0.0, 1.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0):
        assert many.delta(epsilon) >= one.delta(epsilon) * 0.99 >= 0
    told = [many.delta(epsilon / 4) for epsilon in range(80)]
    assert told == sorted(told, reverse=True)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, *SMALL])
def test_epsilon_and_delta_agree(delta: float) -> None:
    mixed = {sampled(0.3, 2.0): 20, LaplaceDpEvent(9.0): 3, GaussianDpEvent(4.0): 2}
    for history in ({sampled(0.01, 1.0): 500}, mixed):
        curve = price(history)
        assert curve.delta(curve.epsilon(delta)) == pytest.approx(delta, rel=5e-3)


@pytest.mark.parametrize("noise", [0.8, 3.0])
def test_composed_gaussians_are_the_closed_form(noise: float) -> None:
    """One Gaussian, put on the grid and composed, against the closed form: never below it, and close, at any δ."""
    event: DpEvent = GaussianDpEvent(noise)
    exact = price({event: 50})
    assert exact.accountant == "exact"
    interval = 2e-4 * max(1.0, exact.epsilon(1e-5) / 5)
    ways = both_losses(profile_of(event, "add_remove"), interval)
    for way in ways:
        composed = ComposedLosses([(way, 50)], interval)
        for delta in (1e-2, 1e-5, *SMALL):
            assert exact.epsilon(delta) <= composed.epsilon(delta) <= exact.epsilon(delta) * 1.002 + 1e-3
        for epsilon in (0.0, 1.0, 5.0, 20.0):
            assert exact.delta(epsilon) * (1 - 1e-9) <= composed.delta(epsilon)

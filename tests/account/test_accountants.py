"""Every accountant: composition laws for every event, refusals, cross-checks, and who answers when one cannot."""

import math

import numpy as np
import pytest
from absl import logging as absl_logging
from dp_accounting.dp_event import RandomizedResponseDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from sordino.account.accountants import pld
from sordino.account.accountants.accountant import ACCOUNTANTS, epsilon, price
from sordino.account.accountants.history import flatten
from sordino.errors import AccountingError, UnknownEvent
from sordino.events import (
    ComposedDpEvent,
    CorrelatedGaussian,
    DiscreteGaussian,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    Skellam,
    Unbounded,
    decode,
    describe,
    encode,
)

absl_logging.set_verbosity(absl_logging.FATAL)

EVENTS = [
    (GaussianDpEvent(1.3), "add_remove"),
    (CorrelatedGaussian(2.0), "replace"),
    (LaplaceDpEvent(3.0), "zero_out"),
    (Skellam(200.0, 5.0, 20.0), "zero_out"),
    (Skellam(4.0, 500.0, 900.0), "zero_out"),
    (DiscreteGaussian(60.0, 30.0, 9), "replace"),
    (PoissonSampledDpEvent(0.05, GaussianDpEvent(1.1)), "add_remove"),
    (PoissonSampledDpEvent(0.05, GaussianDpEvent(1.1)), "zero_out"),
    (PoissonSampledDpEvent(0.2, GaussianDpEvent(1.5)), "replace"),
    (PoissonSampledDpEvent(0.05, LaplaceDpEvent(2.0)), "add_remove"),
    (PoissonSampledDpEvent(0.05, Skellam(200.0, 5.0, 20.0)), "add_remove"),
    (PoissonSampledDpEvent(0.1, ComposedDpEvent((LaplaceDpEvent(4.0), GaussianDpEvent(2.0)))), "add_remove"),
    (PoissonSampledDpEvent(0.05, Skellam(200.0, 5.0, 20.0)), "replace"),
    (PoissonSampledDpEvent(0.05, DiscreteGaussian(12.0, 5.0)), "zero_out"),
    (SampledWithoutReplacementDpEvent(100, 5, GaussianDpEvent(2.0)), "replace"),
    (SampledWithoutReplacementDpEvent(100, 5, GaussianDpEvent(2.0)), "zero_out"),
    (SampledWithoutReplacementDpEvent(100, 5, Skellam(200.0, 5.0, 20.0)), "add_remove"),
    (Unbounded("nothing bounds it"), "add_remove"),
    (NonPrivateDpEvent(), "add_remove"),
]


@pytest.mark.parametrize(("event", "adjacency"), EVENTS, ids=lambda value: str(value))
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_composition_law_for_every_event(event, adjacency, accountant):
    try:
        repeated = price({event: 6}, accountant, adjacency)
    except UnknownEvent:
        return
    listed = price([event] * 6, accountant, adjacency)
    wrapped = price(SelfComposedDpEvent(event, 6), accountant, adjacency)
    nested = price(
        ComposedDpEvent([SelfComposedDpEvent(event, 2), event, SelfComposedDpEvent(event, 3)]), accountant, adjacency
    )
    for curve in (listed, wrapped, nested):
        assert curve.epsilon(1e-5) == repeated.epsilon(1e-5)
        assert curve.accountant == repeated.accountant
    once = price(event, accountant, adjacency)
    assert repeated.epsilon(1e-5) >= once.epsilon(1e-5)
    assert repeated.delta(1.0) >= once.delta(1.0)


@pytest.mark.parametrize(("event", "adjacency"), EVENTS, ids=lambda value: str(value))
def test_the_default_prices_every_event_and_never_above_renyi(event, adjacency):
    tight, loose = price({event: 3}, "pld", adjacency), price({event: 3}, "rdp", adjacency)
    for delta in (1e-3, 1e-5, 1e-8):
        assert tight.epsilon(delta) <= loose.epsilon(delta) * (1 + 1e-9)
        assert price({event: 3}, "rdp-classic", adjacency).epsilon(delta) >= loose.epsilon(delta) * (1 - 1e-9)


@pytest.mark.parametrize(("event", "adjacency"), EVENTS, ids=lambda value: str(value))
def test_events_survive_being_written_down(event, adjacency):
    again = decode(encode(event))
    assert hash(again) == hash(decode(encode(again)))
    assert again == event
    assert describe(event)


def test_unknown_events_are_refused_not_guessed():
    for accountant in ACCOUNTANTS:
        with pytest.raises(UnknownEvent):
            price(RandomizedResponseDpEvent(0.5, 2), accountant, "replace")
    with pytest.raises(UnknownEvent, match="cannot be written"):
        encode(RandomizedResponseDpEvent(0.5, 2))
    with pytest.raises(UnknownEvent, match="upgrade"):
        decode({"kind": "FutureDpEvent"})


@pytest.mark.parametrize(
    ("event", "accountant", "adjacency"),
    [
        (PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)), "exact", "add_remove"),
        (LaplaceDpEvent(1.0), "exact", "add_remove"),
        (GaussianDpEvent(1.0), "pure", "add_remove"),
        (PoissonSampledDpEvent(0.1, CorrelatedGaussian(1.0)), "pld", "add_remove"),
        (SampledWithoutReplacementDpEvent(100, 5, CorrelatedGaussian(2.0)), "pld", "zero_out"),
        (SampledWithoutReplacementDpEvent(100, 5, LaplaceDpEvent(2.0)), "rdp", "replace"),
        (DiscreteGaussian(20.0, 1.0, 400), "pld", "zero_out"),
    ],
)
def test_events_that_an_accountant_cannot_take(event, accountant, adjacency):
    with pytest.raises(UnknownEvent):
        price(event, accountant, adjacency)


def test_an_unbounded_release_costs_infinity_and_says_why():
    curve = price([GaussianDpEvent(10.0), Unbounded("the threshold is private")])
    assert curve.epsilon(1e-5) == math.inf
    assert curve.delta(5.0) == 1
    assert curve.reason == "the threshold is private"
    assert "no noise" in (price(GaussianDpEvent(0.0)).reason or "")
    assert price(PoissonSampledDpEvent(0.1, Unbounded("x"))).reason == "x"


def test_nothing_released_costs_nothing():
    for history in ({}, NoOpDpEvent(), PoissonSampledDpEvent(0.0, GaussianDpEvent(1.0)), {GaussianDpEvent(1.0): 0}):
        assert price(history).epsilon(1e-9) == 0
        assert price(history).delta(0.0) == 0


@given(st.floats(0.002, 0.9), st.floats(0.6, 8), st.integers(1, 60))
@settings(max_examples=6, deadline=None)
def test_pld_agrees_with_dp_accounting(rate, noise, count):
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    theirs = PLDAccountant().compose(event, count).get_epsilon(1e-5)
    assert price({event: count}).epsilon(1e-5) == pytest.approx(theirs, rel=2e-3, abs=2e-4)


@given(st.floats(0.002, 0.9), st.floats(0.6, 8), st.integers(1, 500))
@settings(max_examples=15, deadline=None)
def test_rdp_agrees_with_dp_accounting_at_whole_orders(rate, noise, count):
    event, orders = PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), list(range(2, 64))
    theirs = RdpAccountant(orders).compose(event, count).rdp
    from sordino.account.accountants.rdp import divergence

    np.testing.assert_allclose(divergence({event: count}, np.array(orders, float), "add_remove"), theirs, rtol=1e-6)


def sampled_epsilon(rate: float, noise: float, delta: float) -> float:
    """The exact ε of one sampled Gaussian: both hockey-stick divergences have a closed form at their crossing point."""

    def worst(eps: float) -> float:
        def crossing(level: float) -> float:
            return noise**2 * math.log((level - 1 + rate) / rate) + 0.5

        x = crossing(math.exp(eps))
        remove = (1 - rate - math.exp(eps)) * norm.sf(x / noise) + rate * norm.sf((x - 1) / noise)
        if math.exp(-eps) <= 1 - rate:
            return remove
        y = crossing(math.exp(-eps))
        add = norm.cdf(y / noise) - math.exp(eps) * (
            (1 - rate) * norm.cdf(y / noise) + rate * norm.cdf((y - 1) / noise)
        )
        return max(remove, add)

    return brentq(lambda eps: worst(eps) - delta, 1e-9, 60, xtol=1e-12)


@given(st.floats(0.001, 0.9), st.floats(0.5, 6), st.sampled_from([1e-4, 1e-6]))
@settings(max_examples=10, deadline=None)
def test_pld_of_one_sampled_gaussian_is_the_closed_form(rate, noise, delta):
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    exact = sampled_epsilon(rate, noise, delta)
    found = price(event).epsilon(delta)
    assert found >= exact * (1 - 1e-9)
    assert found <= exact * 1.001 + 2e-4


def test_replace_measures_noise_against_the_whole_change():
    """z counts in units of the sensitivity under the stated adjacency: two contributions apart under replace."""
    plain = price(GaussianDpEvent(1.0), adjacency="replace").epsilon(1e-5)
    assert plain == price(GaussianDpEvent(1.0), adjacency="zero_out").epsilon(1e-5)
    almost_all = price(PoissonSampledDpEvent(1 - 1e-9, GaussianDpEvent(1.0)), adjacency="replace").epsilon(1e-5)
    assert almost_all == pytest.approx(plain, rel=1e-3)
    # By hand: q·N(±C) + (1−q)·N(0) with σ = 2C, whose hockey-stick divergence at ε = 0.5 was integrated numerically.
    found = price(PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)), adjacency="replace").delta(0.5)
    assert found == pytest.approx(4.802025e-06, rel=1e-3)


def test_laplace_is_pure():
    curve = price({LaplaceDpEvent(2.0): 10}, "pure")
    assert curve.epsilon(1e-9) == pytest.approx(5.0)
    assert curve.delta(5.0) == 0
    assert price({LaplaceDpEvent(2.0): 10}).epsilon(1e-5) < 5.0
    assert curve.delta(1.0) >= price({LaplaceDpEvent(2.0): 10}).delta(1.0)


def test_the_fallback_says_so():
    assert "Skellam" in price({Skellam(100.0, 10.0, 30.0): 3}).note
    beyond = price({Skellam(4.0, 500.0, 900.0): 3})  # a shift so large that no Gaussian is proved to dominate
    assert beyond.accountant == "rdp"
    assert "Skellam" in beyond.note
    assert price({GaussianDpEvent(1.0): 3}).accountant == "exact"
    many = [PoissonSampledDpEvent(0.001 + 1e-5 * k, GaussianDpEvent(3.0)) for k in range(100)]
    slow = price(many)
    assert (slow.accountant, "too many grid points" in slow.note) == ("rdp", True)


def test_long_schedules_are_rounded_down_to_few_levels():
    schedule = [PoissonSampledDpEvent(0.1, GaussianDpEvent(8.0 * 0.999**k)) for k in range(150)]
    curve = price(schedule)
    assert curve.accountant == "pld"
    assert "150 different events" in curve.note
    first, last = ({PoissonSampledDpEvent(0.1, GaussianDpEvent(z)): 150} for z in (8.0, 8.0 * 0.999**149))
    assert price(first).epsilon(1e-5) < curve.epsilon(1e-5) < price(last).epsilon(1e-5)
    assert curve.epsilon(1e-5) < price(schedule, "rdp").epsilon(1e-5)
    rounded = pld.fewer(flatten(schedule))
    assert len(rounded) <= 64
    assert sum(rounded.values()) == 150
    noises = sorted(event.event.noise_multiplier for event in rounded for _ in range(rounded[event]))
    assert all(
        after <= before * (1 + 1e-12)
        for after, before in zip(noises, sorted(e.event.noise_multiplier for e in schedule), strict=True)
    )


def test_a_grid_that_fails_falls_back(monkeypatch):
    monkeypatch.setattr(pld, "compose", lambda *_: (_ for _ in ()).throw(ValueError("deltas are not sorted")))
    curve = price({PoissonSampledDpEvent(0.0123, GaussianDpEvent(1.2345)): 3})
    assert curve.accountant == "rdp"
    assert "deltas are not sorted" in curve.note


@given(st.floats(0.001, 0.999), st.floats(0.5, 5), st.integers(1, 200), st.sampled_from(["rdp", "rdp-classic"]))
@settings(max_examples=30, deadline=None)
def test_monotone_in_rounds_noise_and_rate(rate, noise, count, accountant):
    def cost(q, z, n):
        return price({PoissonSampledDpEvent(q, GaussianDpEvent(z)): n}, accountant).epsilon(1e-5)

    base = cost(rate, noise, count)
    assert cost(rate, noise, count + 1) >= base
    assert cost(rate, noise * 1.1, count) <= base * (1 + 1e-9)
    assert cost(rate * 0.9, noise, count) <= base * (1 + 1e-9)


def _fixed(population, size, noise):
    return SampledWithoutReplacementDpEvent(population, size, noise)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(
    ("adjacency", "make"),
    [
        ("zero_out", lambda z, q: GaussianDpEvent(z)),
        ("zero_out", lambda z, q: CorrelatedGaussian(z)),
        ("zero_out", lambda z, q: LaplaceDpEvent(z)),
        ("zero_out", lambda z, q: Skellam((10 * z) ** 2, 10.0, 40.0)),
        ("zero_out", lambda z, q: DiscreteGaussian(10 * z, 10.0)),
        ("add_remove", lambda z, q: PoissonSampledDpEvent(q, GaussianDpEvent(z))),
        ("replace", lambda z, q: PoissonSampledDpEvent(q, GaussianDpEvent(z))),
        ("add_remove", lambda z, q: PoissonSampledDpEvent(q, LaplaceDpEvent(z))),
        ("add_remove", lambda z, q: PoissonSampledDpEvent(q, Skellam((10 * z) ** 2, 10.0, 40.0))),
        ("replace", lambda z, q: PoissonSampledDpEvent(q, Skellam((10 * z) ** 2, 10.0, 40.0))),
        ("zero_out", lambda z, q: PoissonSampledDpEvent(q, DiscreteGaussian(10 * z, 10.0))),
        ("add_remove", lambda z, q: _fixed(200, round(200 * q), GaussianDpEvent(z))),
        ("zero_out", lambda z, q: _fixed(200, round(200 * q), GaussianDpEvent(z))),
        ("replace", lambda z, q: _fixed(200, round(200 * q), Skellam((10 * z) ** 2, 10.0, 40.0))),
    ],
)
def test_every_event_costs_less_with_more_noise_fewer_rounds_and_smaller_rates(accountant, adjacency, make):
    def cost(z, q, n):
        return price({make(z, q): n}, accountant, adjacency).epsilon(1e-5)

    base = cost(1.5, 0.1, 4)
    assert cost(1.8, 0.1, 4) < base < cost(1.5, 0.1, 5)
    assert cost(1.5, 0.08, 4) <= base


@pytest.mark.parametrize(
    "call",
    [
        lambda: price(GaussianDpEvent(1.0), "moments"),
        lambda: price(GaussianDpEvent(1.0), "pld", "swap"),
        lambda: price(GaussianDpEvent(-1.0)),
        lambda: price(GaussianDpEvent(math.nan)),
        lambda: price(GaussianDpEvent(math.inf)),
        lambda: price(PoissonSampledDpEvent(1.5, GaussianDpEvent(1.0))),
        lambda: price(PoissonSampledDpEvent(math.nan, GaussianDpEvent(1.0))),
        lambda: price(LaplaceDpEvent(0.0), "rdp"),
        lambda: price(LaplaceDpEvent(-1.0), "pure"),
        lambda: price(Skellam(-1.0, 1.0, 1.0)),
        lambda: price(Skellam(float("inf"), 1.0, 1.0)),
        lambda: price(DiscreteGaussian(0.0, 1.0)),
        lambda: price(DiscreteGaussian(3.0, 1.0, 0)),
        lambda: price({GaussianDpEvent(1.0): -1}),
        lambda: price({GaussianDpEvent(1.0): 1.5}),
        lambda: price(SelfComposedDpEvent(GaussianDpEvent(1.0), -2)),
        lambda: price(GaussianDpEvent(1.0)).epsilon(0.0),
        lambda: price(GaussianDpEvent(1.0)).epsilon(1.0),
        lambda: price(GaussianDpEvent(1.0)).epsilon(math.nan),
        lambda: price(GaussianDpEvent(1.0)).delta(-1.0),
        lambda: price(SampledWithoutReplacementDpEvent(10, 20, GaussianDpEvent(1.0)), "rdp", "replace"),
    ],
)
def test_bad_input_is_one_sentence(call):
    with pytest.raises(AccountingError) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_numbers_are_remembered_by_history(monkeypatch):
    event = PoissonSampledDpEvent(0.01, GaussianDpEvent(0.987))
    first = epsilon({event: 7}, 1e-5)
    monkeypatch.setattr("sordino.account.accountants.accountant._price", None)  # whoever computes again fails
    assert epsilon([event] * 7, 1e-5) == first


def test_sampled_gaussians_of_one_sample_are_one_gaussian():
    inner = ComposedDpEvent([GaussianDpEvent(3.0), SelfComposedDpEvent(GaussianDpEvent(4.0), 2)])
    (leaf,) = flatten(PoissonSampledDpEvent(0.1, inner))
    assert leaf.event.noise_multiplier == pytest.approx((1 / 9 + 2 / 16) ** -0.5)

"""Privacy filters: no adaptive schedule overspends, and the game that a filter ends is really (ε, δ)-private."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants import rdp
from sordino.account.accountants.filter import GaussianFilter, RdpFilter, admits, filter_for, named
from sordino.errors import AccountingError, UnknownEvent
from sordino.events import (
    CorrelatedGaussian,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    Skellam,
    Unbounded,
)

budgets = st.tuples(st.floats(0.2, 10), st.sampled_from([1e-3, 1e-5, 1e-7]))


@given(budgets, st.lists(st.floats(0.3, 30), min_size=1, max_size=60))
@settings(max_examples=80, deadline=None)
def test_no_gaussian_schedule_overspends(budget, noises):
    """The adversary names any multiplier next; only what is admitted is released."""
    chosen, admitted = GaussianFilter(*budget), []
    for noise in noises:
        if admits(chosen, {GaussianDpEvent(z): admitted.count(z) + (z == noise) for z in {*admitted, noise}}):
            admitted.append(noise)
    mu = math.sqrt(sum(z**-2 for z in admitted))
    assert gaussian.delta_of(mu, budget[0]) <= budget[1] * (1 + 1e-6)


@given(
    budgets, st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.5, 20)), min_size=1, max_size=40), st.floats(1.5, 60)
)
@settings(max_examples=60, deadline=None)
def test_no_sampled_schedule_overspends(budget, schedule, order):
    chosen, total = RdpFilter(*budget, order), 0.0
    for rate, noise in schedule:
        cost = chosen.cost(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), "add_remove")
        if total + cost <= chosen.capacity:
            total += cost
    assert total + math.log1p(-1 / order) - math.log(budget[1] * order) / (order - 1) <= budget[0] + 1e-9 or total == 0


def test_a_calibrated_schedule_is_admitted_to_its_last_release():
    mu = gaussian.separation_for(3.0, 1e-5)
    noise = math.sqrt(100) / mu
    assert admits(GaussianFilter(3.0, 1e-5), {GaussianDpEvent(noise): 100})
    assert not admits(GaussianFilter(3.0, 1e-5), {GaussianDpEvent(noise): 101})
    assert admits(GaussianFilter(3.0, 1e-5), {CorrelatedGaussian(noise): 100})


class TestAdversary:
    """A game with a secret bit: the adversary steers its own noise by what it has seen, until the filter says stop.

    The loss of the whole interaction is followed exactly, path by path; δ is estimated from many paths as
    E[max(0, 1 − e^{ε − loss})] under the bit's world, an unbiased estimate of the hockey-stick divergence.
    """

    EPSILON, DELTA, PATHS = 1.0, 0.05, 200_000

    @staticmethod
    def chase(loss, left):
        """Spends fast while it is losing and slowly while it is winning: the walk that odometers are weak against."""
        return np.where(loss > 0.3, left * 0.02, np.where(loss < -0.2, left * 0.9, left * 0.3))

    @staticmethod
    def gamble(loss, left):
        """Stops as soon as it is ahead, and puts everything on one release otherwise."""
        return np.where(loss > 0.8, 0.0, left)

    @staticmethod
    def drip(loss, left):
        return np.minimum(left, np.where(loss > 0.5, 0.002, 0.05))

    @pytest.mark.parametrize("strategy", ["chase", "gamble", "drip"])
    @pytest.mark.parametrize("kind", ["gaussian", "rdp"])
    def test_no_strategy_beats_the_filter(self, strategy, kind):
        chosen = (
            GaussianFilter(self.EPSILON, self.DELTA) if kind == "gaussian" else RdpFilter(self.EPSILON, self.DELTA, 3.0)
        )
        delta, error = self.play(getattr(self, strategy), self.budget(chosen), 7)
        assert delta - 4 * error <= self.DELTA

    def test_the_game_can_tell(self):
        """The same game with a budget a third too large is caught, so the test above is not empty."""
        delta, error = self.play(self.gamble, self.budget(GaussianFilter(self.EPSILON, self.DELTA)) * 1.5, 7)
        assert delta - 4 * error > self.DELTA

    @staticmethod
    def budget(chosen) -> float:
        """Σ 1/z² that the filter admits: its cost is proportional to that."""
        return chosen.capacity / chosen.cost(GaussianDpEvent(1.0), "add_remove")

    def play(self, strategy, budget, seed):
        rng = np.random.default_rng(seed)
        loss, left = np.zeros(self.PATHS), np.full(self.PATHS, budget)
        for _ in range(25):
            spend = np.minimum(strategy(loss, left), left)
            # One release of precision s = 1/z² moves the privacy loss by N(s/2, s) in the world where the bit is set.
            loss += spend / 2 + np.sqrt(spend) * rng.standard_normal(self.PATHS)
            left -= spend
        excess = np.maximum(0.0, -np.expm1(self.EPSILON - loss))
        return excess.mean(), excess.std() / math.sqrt(self.PATHS)


def test_a_price_in_hindsight_is_not_a_filter():
    """Why certificates of adaptive runs do not simply price the path taken: stopping when ahead would be free."""
    rng, paths = np.random.default_rng(3), 200_000
    delta = 0.05
    stop_early = gaussian.separation_for(0.5, delta) ** 2
    loss = stop_early / 2 + math.sqrt(stop_early) * rng.standard_normal(paths)
    claimed = np.where(loss > 0.4, 0.5, 1.0)
    rest = gaussian.separation_for(1.0, delta) ** 2 - stop_early
    more = rest / 2 + math.sqrt(rest) * rng.standard_normal(paths)
    final = np.where(loss > 0.4, loss, loss + more)
    violated = np.maximum(0.0, -np.expm1(claimed - final)).mean()
    assert violated > delta


def test_the_promise_at_other_deltas_follows_from_the_capacity():
    exact = GaussianFilter(3.0, 1e-5)
    assert exact.promised(1e-5) == pytest.approx(3.0)
    assert exact.promised(1e-8) > 3.0
    general = RdpFilter(3.0, 1e-5, 9.0)
    assert general.promised(1e-5) == pytest.approx(3.0)
    assert general.promised(1e-3) < 3.0


@given(st.floats(0.5, 8), st.floats(0.02, 0.5), st.floats(0.7, 4))
@settings(max_examples=25, deadline=None)
def test_the_planned_order_admits_most_repetitions(epsilon, rate, noise):
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    chosen = filter_for(epsilon, 1e-5, event, "add_remove")

    def repetitions(filter_):
        return filter_.capacity / filter_.cost(event, "add_remove")

    assert isinstance(chosen, RdpFilter)
    assert all(
        repetitions(chosen) >= repetitions(RdpFilter(epsilon, 1e-5, order)) - 1e-9 for order in (2.0, 4.5, 9.0, 30.0)
    )


def test_filters_by_kind_of_event():
    assert isinstance(filter_for(1.0, 1e-5, GaussianDpEvent(2.0), "zero_out"), GaussianFilter)
    assert isinstance(filter_for(1.0, 1e-5, Skellam(100.0, 1.0, 5.0), "zero_out"), GaussianFilter)
    assert isinstance(filter_for(1.0, 1e-5, LaplaceDpEvent(5.0), "zero_out"), RdpFilter)
    with pytest.raises(UnknownEvent):
        admits(GaussianFilter(1.0, 1e-5), LaplaceDpEvent(1.0))
    assert not admits(RdpFilter(1.0, 1e-5, 8.0), Unbounded("why"))
    assert GaussianFilter(2.0, 1e-5).lowered(1.0) == GaussianFilter(1.0, 1e-5)
    assert RdpFilter(2.0, 1e-5, 8.0).lowered(1.0) == RdpFilter(1.0, 1e-5, 8.0)


def test_names_lead_back_to_filters():
    for chosen in (GaussianFilter(2.0, 1e-5), RdpFilter(2.0, 1e-5, 8.0), RdpFilter(2.0, 1e-5, 1.15)):
        assert named(chosen.name, 2.0, 1e-5) == chosen
    assert named("pld", 2.0, 1e-5) is None


@pytest.mark.parametrize(
    "make", [lambda: GaussianFilter(-1, 1e-5), lambda: GaussianFilter(1, 0), lambda: RdpFilter(1, 1e-5, 1.0)]
)
def test_bad_filters(make):
    with pytest.raises(AccountingError):
        make()


def test_capacity_zero_admits_nothing():
    assert not admits(RdpFilter(0.01, 1e-9, 1.1), GaussianDpEvent(100.0))
    assert rdp.divergence({}, np.array([2.0]), "zero_out") == 0
    assert norm.cdf(0) == 0.5

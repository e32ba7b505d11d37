"""Geometric schedules: the series, when they are refined, and that no refinement ever exceeds the budget."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.account.accountants.accountant import epsilon
from sordino.account.accountants.filter import GaussianFilter, RdpFilter, admits, filter_for
from sordino.adapt.geometric import Geometric, relative
from sordino.adapt.refine import FilterRefit, dearest
from sordino.events import DpEvent, GaussianDpEvent, PoissonSampledDpEvent
from sordino.random.streams import Streams
from sordino.stages import Released
from sordino.terms import Knobs, Terms, Turn
from sordino.types import Adjacency

EPSILON, DELTA = 2.0, 1e-5
NOTHING = Released(torch.zeros(1), 0.0, ())


@dataclass(frozen=True)
class Paid:
    """A guarantee that Gaussians are charged to, over Poisson cohorts if there is a rate."""

    count: int
    rate: float | None = None

    @property
    def adjacency(self) -> Adjacency:
        return "zero_out" if self.rate is None else "add_remove"

    def event(self, noise_multiplier: float) -> DpEvent:
        gaussian = GaussianDpEvent(noise_multiplier)
        return gaussian if self.rate is None else PoissonSampledDpEvent(self.rate, gaussian)


def rule(rounds, count=None, rate=None):
    paid = Paid(count or rounds, rate)
    return FilterRefit(((paid, filter_for(EPSILON, DELTA, paid.event(1.0), paid.adjacency)),))


def play(adapter, losses, tell=False):
    """Plays a schedule to its end; returns the noise multipliers, and (to `tell`) if it was cut off by a refinement."""
    knobs, used, m, cut = adapter.start(), [], 0, False
    while m < int(knobs.number("last_round")):
        m, last = m + 1, knobs.number("last_round")
        used.append(knobs.noise_multiplier)
        turn = Turn(Terms(m, torch.zeros(1), knobs), Streams(0))
        knobs = adapter.adapt(turn, NOTHING, {"loss": losses[m - 1]} if m <= len(losses) else {})
        cut = knobs.number("last_round") == m < last
    return used if not tell else (used, cut)


@pytest.mark.parametrize("theta", [0.9, 0.95, 1.0, 1.05, 1.1])
def test_the_series_is_equation_six(theta):
    used = play(Geometric(5.0, 0.7, theta, 30), [])
    assert len(used) == 30
    assert [z**2 for z in used] == pytest.approx([theta**m * 0.7**2 for m in range(30)], rel=1e-12)


def test_a_loss_that_falls_refines_nothing_and_one_that_does_not_shortens_the_schedule():
    adapter = Geometric(1.0, 30.0, 1.1, 20, 0.8, rule(20))
    assert len(play(adapter, [1 / m for m in range(1, 21)])) == 20
    used = play(adapter, [1.0, 0.9, 0.9, 0.8, 0.7] + [0.7 - m / 100 for m in range(1, 20)])
    assert len(used) == math.ceil(0.8 * 20)
    assert used[:3] == [30.0 * relative(1.1, m) for m in (1, 2, 3)]
    assert used[4] / used[3] == pytest.approx(1.1**0.5)
    assert used[3] != pytest.approx(30.0 * relative(1.1, 4))


def test_a_loss_that_is_not_finite_has_not_fallen():
    adapter = Geometric(1.0, 30.0, 1.0, 10, 0.5, rule(10))
    assert len(play(adapter, [1.0, float("nan"), 0.5, 0.4, 0.3])) == 5


@settings(max_examples=60, deadline=None)
@given(
    theta=st.sampled_from([0.8, 0.9, 1.0, 1.1, 1.3]),
    rounds=st.integers(1, 25),
    shrink=st.floats(0.3, 0.95),
    falls=st.lists(st.booleans(), min_size=25, max_size=25),
    rate=st.sampled_from([None, 0.1]),
)
def test_whenever_it_is_refined_the_whole_is_admitted_and_hardly_anything_is_left(theta, rounds, shrink, falls, rate):
    refit = rule(rounds, rate=rate)
    level = refit.level((), [relative(theta, m) for m in range(1, rounds + 1)])
    losses, loss = [], 100.0
    for fell in falls:
        loss += -1.0 if fell else 0.5
        losses.append(loss)
    used, cut = play(Geometric(1.0, level, theta, rounds, shrink, refit), losses, tell=True)
    ((paid, filter_),) = refit.releases
    cost = filter_.cost(dearest(paid, used), paid.adjacency)
    assert admits(filter_, dearest(paid, used), paid.adjacency)
    assert cost <= filter_.capacity
    assert cut or cost == pytest.approx(filter_.capacity, rel=1e-8)
    if rate is None:
        assert isinstance(filter_, GaussianFilter)
        spent = epsilon(dearest(paid, used), DELTA, "exact")
        assert spent <= EPSILON
        assert cut or spent > EPSILON - 1e-6
    else:
        assert isinstance(filter_, RdpFilter)


def test_refinement_at_a_known_round_is_the_closed_form():
    # μ² is what plain Gaussians may spend: z′² = Σ θ^−(n−1) over the rounds to come, over what is left of it
    refit, theta = rule(30), 1.05
    budget = refit.releases[0][1].capacity
    past = [9.0 * relative(theta, m) for m in range(1, 11)]
    shape = [relative(theta, m) for m in range(11, 25)]
    left = budget - sum(z**-2 for z in past)
    assert refit.level(past, shape) == pytest.approx(math.sqrt(sum(s**-2 for s in shape) / left), rel=1e-9)


def test_where_a_client_takes_part_less_often_the_dearest_rounds_count():
    refit, theta = rule(30, count=8), 1.1
    shape = [relative(theta, m) for m in range(1, 31)]
    level = refit.level((), shape)
    paid, filter_ = refit.releases[0]
    least_noisy = sorted(level * s for s in shape)[:8]
    assert sum(z**-2 for z in least_noisy) == pytest.approx(filter_.capacity, rel=1e-8)
    assert dearest(paid, [level * s for s in shape]) == {GaussianDpEvent(z): 1 for z in least_noisy}


def test_the_strictest_guarantee_decides():
    seldom, always = rule(10, count=2), rule(10)
    shape = [relative(1.1, m) for m in range(1, 11)]
    both = FilterRefit((*seldom.releases, *always.releases))
    assert both.level((), shape) == always.level((), shape) > seldom.level((), shape)


def test_when_everything_is_spent_the_run_ends():
    refit = rule(10)
    spent = math.sqrt(1 / refit.releases[0][1].capacity)
    assert refit.level([spent], [1.0, 1.0]) is None
    adapter = Geometric(1.0, spent, 1.0, 10, 0.5, refit)
    knobs = adapter.start()
    for loss in (1.0, 2.0):
        turn = Turn(Terms(1, torch.zeros(1), knobs), Streams(0))
        knobs = adapter.adapt(turn, NOTHING, {"loss": loss})
    assert knobs.number("last_round") == 1


def test_a_schedule_that_would_end_in_the_past_ends_now():
    assert len(play(Geometric(1.0, 30.0, 1.0, 10, 0.3, rule(10)), [1.0, 0.9, 0.8, 0.7, 0.6, 0.7])) == 6


def test_knobs_go_through_a_checkpoint_and_inputs_are_left_alone():
    from safetensors.torch import load, save

    adapter = Geometric(1.0, 5.0, 1.1, 10, 0.8, rule(10))
    knobs = adapter.start()
    turn = Turn(Terms(1, torch.zeros(1), knobs), Streams(0))
    after = adapter.adapt(turn, NOTHING, {"loss": 1.0})
    assert len(knobs["past"]) == 0
    back = Knobs.from_tensors(load(save({name: value.contiguous() for name, value in after.tensors().items()})))
    one, two = (adapter.adapt(turn.but(round_=2, knobs=k), NOTHING, {"loss": 2.0}).tensors() for k in (after, back))
    assert set(one) == set(two) and all(torch.equal(one[name], two[name]) for name in one)

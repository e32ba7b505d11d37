"""The cost so far: an upper bound like the final price, close to it, fast, and a value that `add` leaves alone."""

import itertools
import math
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.account.accountants import running
from sordino.account.accountants.accountant import price
from sordino.account.accountants.running import RunningCost
from sordino.errors import AccountingError
from sordino.events import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    Skellam,
    Unbounded,
)


def sampled(rate, noise):
    return PoissonSampledDpEvent(rate, GaussianDpEvent(noise))


@given(st.floats(0.005, 0.5), st.floats(0.8, 8), st.integers(1, 300), st.sampled_from([1e-3, 1e-5, 1e-8]))
@settings(max_examples=15, deadline=None)
def test_agrees_with_the_final_price(rate, noise, rounds, delta):
    history = {sampled(rate, noise): rounds, sampled(rate, noise * 1.3): rounds // 2 + 1}
    told, final = RunningCost().add(history).epsilon(delta), price(history).epsilon(delta)
    assert told == pytest.approx(final, abs=(1e-4 if delta >= 1e-6 else 1e-3) * max(1.0, final))
    assert told >= final - 1e-4  # a finer grid may be a little tighter, and no more


@pytest.mark.parametrize(
    ("history", "adjacency"),
    [
        ({sampled(0.1, 2.0): 40, GaussianDpEvent(9.0): 3, Skellam(400.0, 2.0, 4.0): 2}, "zero_out"),
        ({sampled(0.1, 2.0): 40, LaplaceDpEvent(9.0): 3}, "replace"),
        ({SampledWithoutReplacementDpEvent(100, 5, GaussianDpEvent(4.0)): 30}, "zero_out"),
        ({PoissonSampledDpEvent(0.05, Skellam(900.0, 10.0, 40.0)): 60}, "add_remove"),
    ],
)
def test_every_event_with_a_profile(history, adjacency):
    run = RunningCost(adjacency)
    for event, count in history.items():
        run = run.add(event, count)
    final = price(history, "pld", adjacency)
    assert final.accountant == "pld"
    assert run.epsilon(1e-5) == pytest.approx(final.epsilon(1e-5), abs=1e-4)


def test_one_by_one_is_all_at_once_and_adding_changes_nothing_before():
    event, other = sampled(0.05, 1.5), sampled(0.05, 2.5)
    run = RunningCost.planned({event: 50, other: 50})
    seen = []
    for _ in range(50):
        run = run.add(event).add(other)
        seen.append((run, run.epsilon(1e-5)))
    assert seen[-1][1] == pytest.approx(RunningCost().add({event: 50, other: 50}).epsilon(1e-5), abs=2e-5)
    assert all(before < after for (_, before), (_, after) in itertools.pairwise(seen))
    assert all(kept.epsilon(1e-5) == told for kept, told in seen[::7])


def test_outgrowing_the_plan_is_noticed():
    run = RunningCost.planned({sampled(0.1, 2.0): 3})
    for _ in range(30):
        run = run.add(sampled(0.1, 2.0), 10)
        told = run.epsilon(1e-5)
    assert told == pytest.approx(price({sampled(0.1, 2.0): 300}).epsilon(1e-5), abs=1e-4 * told)


def test_what_leaves_the_circle_at_the_top_is_counted(monkeypatch):
    """A circle that is far too small must not make a history look cheaper."""
    history = {sampled(0.2, 1.0): 30}
    small = running._Circle(2e-4, 1 << 13, -(1 << 12))
    run = RunningCost().add(history)
    monkeypatch.setattr(running, "_circle", lambda *_: small)
    assert run.epsilon(1e-5) >= price(history).epsilon(1e-5)


def test_edges():
    assert RunningCost().epsilon(1e-5) == 0
    assert RunningCost().add(Unbounded("why")).epsilon(1e-5) == math.inf
    assert RunningCost().add(GaussianDpEvent(2.0), 4).epsilon(1e-5) == price(GaussianDpEvent(1.0)).epsilon(1e-5)
    mixed = PoissonSampledDpEvent(0.1, ComposedDpEvent((LaplaceDpEvent(4.0), GaussianDpEvent(2.0))))
    assert RunningCost().add(mixed).epsilon(1e-5) == price(mixed).epsilon(1e-5)
    with pytest.raises(AccountingError):
        RunningCost().epsilon(0.0)


def test_a_thousand_rounds_of_twenty_noises_in_milliseconds_each():
    levels = [sampled(0.01, 1.03**k) for k in range(20)]
    plan = Counter(levels[t % 20] for t in range(1000))
    run, spent = RunningCost.planned(plan), []
    for t in range(1000):
        started = time.thread_time()
        run = run.add(levels[t % 20])
        run.epsilon(1e-5)
        spent.append(time.thread_time() - started)
    assert np.mean(spent) < 0.005
    assert run.epsilon(1e-5) == pytest.approx(price(plan).epsilon(1e-5), abs=1e-4)

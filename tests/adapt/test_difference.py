"""Diff from released messages: debiased, smoothed, within bounds; or a constant."""

import numpy as np
import pytest
import torch

from sordino.adapt.difference import ReleasedDifference
from sordino.stages import Released


def released(*gaps):
    total = torch.tensor([sum(gaps), len(gaps)], dtype=torch.float64)
    return Released(torch.zeros(3), 0.1, (), {"gap": total})


def follow(adapter, make_turn, gaps):
    knobs = adapter.start()
    for round_, seen in enumerate(gaps, 1):
        knobs = adapter.adapt(make_turn(round_).but(knobs=knobs), released(*seen), {})
    return knobs.number("difference")


def test_a_constant_stays(make_turn):
    assert follow(ReleasedDifference(1.0, 1.0, 0.5), make_turn, [(9.0,)] * 5) == 0.5


def test_it_settles_at_the_distance_that_is_seen_times_the_headroom(make_turn):
    rng = np.random.default_rng(0)
    # squared distances of (0.2·C)² under an error as large as itself, negative ones included
    gaps = [tuple(2.0**2 * (0.04 + 0.04 * rng.normal(size=50))) for _ in range(60)]
    adapter = ReleasedDifference(2.0, 1.0, 0.9, obsolete=0.2, headroom=1.5)
    assert follow(adapter, make_turn, gaps) == pytest.approx(1.5 * 0.2, rel=0.05)


def test_one_step_by_hand(make_turn):
    adapter = ReleasedDifference(1.0, 1.0, 0.5, obsolete=0.4, headroom=1.25)
    expected = 1.25 * np.sqrt(0.6 * 0.4**2 + 0.4 * 0.09)
    assert follow(adapter, make_turn, [(0.08, 0.10)]) == pytest.approx(expected)


def test_it_stays_between_its_bounds_and_ignores_cohorts_of_newcomers(make_turn):
    adapter = ReleasedDifference(1.0, 1.0, 0.5, obsolete=0.9)
    assert follow(adapter, make_turn, [(1e6,)]) == 1.0
    assert follow(adapter, make_turn, [(-1e6,)]) == 0.05
    assert follow(adapter, make_turn, [()]) == 0.5
    assert follow(adapter, make_turn, [(float("nan"),)]) == 0.5

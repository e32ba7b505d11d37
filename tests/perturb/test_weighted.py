"""Weighted averages: the noise carries the client's weight, and its scale, if private, proves nothing."""

import numpy as np
import pytest
import torch

from oracles import assert_normal
from played import bounded_of, summed_of
from sordino.aggregate.plain import PlainSum
from sordino.events import GaussianDpEvent, Guarantee, Unbounded
from sordino.perturb.weighted import WeightedGaussian
from sordino.stages import Summed
from sordino.terms import Knobs

ROWS, WIDTH = 8, 4000
KNOBS = {"noise_multiplier": 3.0, "clip_norm": 0.5}


def bounded(turn, spread=None, weights=None):
    weights = torch.arange(1.0, ROWS + 1) if weights is None else weights
    return bounded_of(turn, torch.zeros(ROWS, WIDTH), weights=weights, spread=spread)


def shielded(part, turn, **more):
    return part.shield(bounded(turn, **more), turn).message


def test_a_public_level_times_the_weight_leaves_each_client(make_turn):
    rows = shielded(WeightedGaussian(), make_turn(**KNOBS)).rows
    for weight, row in zip(range(1, ROWS + 1), rows.numpy(), strict=True):
        assert_normal(row, 1.5 * weight)


def test_a_private_level_is_each_entrys_own(make_turn):
    spread = torch.cat([torch.full((ROWS, WIDTH // 2), 0.2), torch.full((ROWS, WIDTH // 2), 4.0)], dim=1)
    rows = shielded(
        WeightedGaussian("why"), make_turn(**KNOBS), spread=spread, weights=torch.full((ROWS,), 2.0)
    ).rows.numpy()
    assert_normal(rows[:, : WIDTH // 2], 0.4)
    assert_normal(rows[:, WIDTH // 2 :], 8.0)


def test_the_told_level_is_that_of_the_average(make_turn):
    part, turn = WeightedGaussian(), make_turn(width=WIDTH, **KNOBS)
    released = part.release(summed_of(part, PlainSum(None), turn, bounded(turn)), turn)
    assert released.stddev == pytest.approx(1.5 * np.sqrt(204) / 36)
    assert_normal(released.mean.numpy(), released.stddev)


def test_nobody_left_releases_nothing(make_turn):
    released = WeightedGaussian().release(
        Summed(torch.zeros(3), np.empty(0, np.int64), 1e-12, 0.0, np.inf), make_turn(**KNOBS)
    )
    assert released.stddev == 0
    assert released.mean.tolist() == [0, 0, 0]


def test_noise_is_fresh_repeats_by_seed_and_inputs_are_left_alone(make_turn):
    given = bounded(make_turn(**KNOBS))
    first, again, later, other = (
        WeightedGaussian().shield(given, make_turn(r, seed=s, **KNOBS)).message.rows
        for r, s in ((1, 0), (1, 0), (2, 0), (1, 1))
    )
    assert torch.equal(first, again)
    assert not (first == later).any()
    assert not (first == other).any()
    assert not given.rows.any()
    assert np.abs(np.corrcoef(first.numpy()) - np.eye(ROWS)).max() < 0.1


def test_prices():
    knobs = Knobs(**KNOBS)
    assert dict(WeightedGaussian().price(knobs)) == {
        Guarantee("client", "server", "zero_out"): GaussianDpEvent(3.0),
        Guarantee("client", "outsider", "zero_out"): GaussianDpEvent(3.0),
    }
    halved = WeightedGaussian(adjacency="replace").price(knobs)
    assert {event for _, event in halved} == {GaussianDpEvent(1.5)}
    assert {event for _, event in WeightedGaussian("why").price(knobs)} == {Unbounded("why")}

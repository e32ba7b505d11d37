"""Weighted averages: the noise carries the client's weight, and its scale, if private, proves nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from oracles import assert_normal
from sordino.events import GaussianDpEvent, Guarantee, Unbounded
from sordino.perturb.weighted import WeightedGaussian
from sordino.stages import Bounded, Summed

ROWS, WIDTH = 8, 4000
KNOBS = {"noise_multiplier": 3.0, "clip_norm": 0.5}


def bounded(spread=None, weights=None):
    weights = torch.arange(1.0, ROWS + 1) if weights is None else weights
    return Bounded(np.arange(ROWS), torch.zeros(ROWS, WIDTH), weights, torch.zeros(ROWS).bool(), spread)


def test_a_public_level_times_the_weight_leaves_each_client(make_turn):
    rows = WeightedGaussian().shield(bounded(), make_turn(**KNOBS)).rows
    for weight, row in zip(range(1, ROWS + 1), rows.numpy(), strict=True):
        assert_normal(row, 1.5 * weight)


def test_a_private_level_is_each_entrys_own(make_turn):
    spread = torch.cat([torch.full((ROWS, WIDTH // 2), 0.2), torch.full((ROWS, WIDTH // 2), 4.0)], dim=1)
    rows = WeightedGaussian("why").shield(bounded(spread, torch.full((ROWS,), 2.0)), make_turn(**KNOBS)).rows.numpy()
    assert_normal(rows[:, : WIDTH // 2], 0.4)
    assert_normal(rows[:, WIDTH // 2 :], 8.0)


def test_the_told_level_is_that_of_the_average(make_turn):
    part, turn = WeightedGaussian(), make_turn(**KNOBS)
    message = part.shield(bounded(), turn)
    summed = Summed(message.rows.sum(0), np.arange(ROWS), 36.0, {"variance": message.side["variance"].sum(0)})
    released = part.release(summed, turn)
    assert released.stddev == pytest.approx(1.5 * np.sqrt(204) / 36)
    assert_normal(released.mean.numpy(), released.stddev)


def test_nobody_left_releases_nothing(make_turn):
    released = WeightedGaussian().release(Summed(torch.zeros(3), np.empty(0, np.int64), 1e-12), make_turn(**KNOBS))
    assert released.stddev == 0
    assert released.mean.tolist() == [0, 0, 0]


def test_noise_is_fresh_repeats_by_seed_and_inputs_are_left_alone(make_turn):
    given = bounded()
    first, again, later, other = (
        WeightedGaussian().shield(given, make_turn(r, seed=s, **KNOBS)).rows
        for r, s in ((1, 0), (1, 0), (2, 0), (1, 1))
    )
    assert torch.equal(first, again)
    assert not (first == later).any()
    assert not (first == other).any()
    assert not given.rows.any()
    assert np.abs(np.corrcoef(first.numpy()) - np.eye(ROWS)).max() < 0.1


def test_prices(make_turn):
    turn = make_turn(**KNOBS)
    assert dict(WeightedGaussian().price(turn)) == {
        Guarantee("client", "server", "zero_out"): GaussianDpEvent(3.0),
        Guarantee("client", "outsider", "zero_out"): GaussianDpEvent(3.0),
    }
    halved = WeightedGaussian(adjacency="replace").price(replace(turn))
    assert {event for _, event in halved} == {GaussianDpEvent(1.5)}
    assert {event for _, event in WeightedGaussian("why").price(turn)} == {Unbounded("why")}

"""Noise where one party adds all of it: how much, for whom fresh, and at what price."""

import numpy as np
import pytest
import torch

from oracles import assert_normal
from sordino.events import GaussianDpEvent, Guarantee, LaplaceDpEvent, Unbounded
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.perturb.laplace import LocalLaplace
from sordino.perturb.quantile import QuantileGaussian
from sordino.perturb.silent import NoNoise
from sordino.stages import Bounded, Summed

ROWS, WIDTH = 40, 500
KNOBS = {"noise_multiplier": 1.5, "clip_norm": 0.4}


def bounded(rows=ROWS, width=WIDTH, clipped=0):
    flags = torch.arange(rows) < clipped
    return Bounded(np.arange(rows), torch.zeros(rows, width), torch.ones(rows), flags)


def summed(weight=10.0, **side):
    return Summed(torch.zeros(WIDTH * 20), np.arange(9), weight, side)


def test_what_leaves_a_client_carries_its_noise(make_turn):
    shielded = LocalGaussian().shield(bounded(), make_turn(**KNOBS))
    assert_normal(shielded.rows.numpy(), 0.6)


def test_a_local_release_adds_nothing_and_tells_its_noise(make_turn):
    turn = make_turn(**KNOBS)
    released = LocalGaussian().release(Summed(torch.ones(4), np.arange(9), 10.0), turn)
    assert torch.allclose(released.mean, torch.tensor(0.1))
    assert released.stddev == pytest.approx(0.6 * 3 / 10)


def test_the_servers_noise_is_on_the_sum_and_told_on_the_mean(make_turn):
    released = CentralGaussian().release(summed(), make_turn(**KNOBS))
    assert_normal(released.mean.numpy() * 10, 0.6)
    assert released.stddev == pytest.approx(0.06)


def test_central_shield_is_the_row_itself(make_turn):
    rows = bounded()
    assert torch.equal(CentralGaussian().shield(rows, make_turn(**KNOBS)).rows, rows.rows)


@pytest.mark.parametrize("part", [LocalGaussian(), LocalLaplace()])
def test_noise_is_fresh_for_every_client_and_round_and_repeats_by_seed(part, make_turn):
    first = part.shield(bounded(), make_turn(1, **KNOBS)).rows
    again = part.shield(bounded(), make_turn(1, **KNOBS)).rows
    later = part.shield(bounded(), make_turn(2, **KNOBS)).rows
    other = part.shield(bounded(), make_turn(1, seed=1, **KNOBS)).rows
    assert torch.equal(first, again)
    for different in (later, other):
        assert not (first == different).any(dim=1).any()
    correlation = np.corrcoef(np.concatenate([first.numpy(), later.numpy()]))
    assert np.abs(correlation - np.eye(2 * ROWS)).max() < 0.25


@pytest.mark.parametrize("part", [CentralGaussian(), QuantileGaussian(2.0)])
def test_the_servers_noise_is_fresh_in_every_round_and_repeats_by_seed(part, make_turn):
    def release(*place, **more):
        return part.release(summed(unclipped=torch.zeros(1)), make_turn(*place, **more, **KNOBS))

    first, again, later, other = release(1), release(1), release(2), release(1, seed=1)
    assert torch.equal(first.mean, again.mean)
    for different in (later, other):
        assert not (first.mean == different.mean).any()
        assert abs(np.corrcoef(first.mean, different.mean)[0, 1]) < 5 / np.sqrt(WIDTH * 20)
        assert all(not torch.equal(first.side[name], different.side[name]) for name in first.side)


def test_a_row_is_the_same_in_any_chunk(make_turn):
    whole = LocalGaussian().shield(bounded(), make_turn(**KNOBS)).rows
    part = Bounded(np.array([7, 3]), torch.zeros(2, WIDTH), torch.ones(2), torch.zeros(2).bool())
    assert torch.equal(LocalGaussian().shield(part, make_turn(**KNOBS)).rows, whole[[7, 3]])


def test_laplace_noise_has_its_scale(make_turn):
    rows = np.abs(LocalLaplace().shield(bounded(), make_turn(**KNOBS)).rows.numpy().astype(float)).ravel()
    # |Laplace(b)| is exponential with mean b, so the mean of n of them has a standard error of b/√n
    error = 5 * 0.6 / np.sqrt(rows.size)
    assert abs(rows.mean() - 0.6) < error
    for wrong in (0.4, 0.9):
        assert abs(rows.mean() - wrong) > error


def test_quantile_noise_splits_one_gaussian_over_update_and_bit(make_turn):
    part, turn = QuantileGaussian(bit_stddev=2.0), make_turn(**KNOBS)
    multiplier = (1.5**-2 - 4.0**-2) ** -0.5
    released = part.release(summed(unclipped=torch.zeros(1)), turn)
    assert_normal(released.mean.numpy() * 10, multiplier * 0.4)
    count = Summed(torch.zeros(1), np.arange(9), 10.0, {"unclipped": torch.zeros(1)})
    bits = [float(part.release(count, make_turn(r, **KNOBS)).side["unclipped"][0]) for r in range(1, 600)]
    assert_normal((np.array(bits) - 0.5) * 10, 2.0)
    # the two parts of the release together cost one Gaussian of the multiplier that is charged
    assert (1 / multiplier**2 + 0.25 / 2.0**2) ** -0.5 == pytest.approx(1.5)


def test_the_bit_means_not_clipped(make_turn):
    shielded = QuantileGaussian(2.0).shield(bounded(rows=4, clipped=3), make_turn(**KNOBS))
    assert shielded.side["unclipped"].ravel().tolist() == [-0.5, -0.5, -0.5, 0.5]


def test_prices(make_turn):
    turn = make_turn(**KNOBS)
    local = dict(LocalGaussian().price(turn))
    assert local == {
        Guarantee("client", "server", "zero_out"): GaussianDpEvent(1.5),
        Guarantee("client", "outsider", "zero_out"): GaussianDpEvent(1.5),
    }
    replaced = dict(LocalGaussian(adjacency="replace").price(turn))
    assert set(replaced) == {Guarantee("client", "server", "replace"), Guarantee("client", "outsider", "replace")}
    assert set(replaced.values()) == {GaussianDpEvent(0.75)}
    central = dict(CentralGaussian().price(turn))
    assert isinstance(central[Guarantee("client", "server", "zero_out")], Unbounded)
    assert central[Guarantee("client", "outsider", "add_remove")] == GaussianDpEvent(1.5)
    assert dict(LocalLaplace().price(turn))[Guarantee("client", "server", "zero_out")] == LaplaceDpEvent(1.5)
    assert dict(QuantileGaussian(2.0).price(turn)) == central
    nothing = NoNoise().price(turn)
    assert {guarantee.observer for guarantee, _ in nothing} == {"server", "outsider"}
    assert all(isinstance(event, Unbounded) for _, event in nothing)
    assert dict(QuantileGaussian(2.0).price(turn))[Guarantee("client", "outsider", "add_remove")] == GaussianDpEvent(
        1.5
    )

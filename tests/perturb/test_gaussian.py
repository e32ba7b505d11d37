"""Noise where one party adds all of it: how much, for whom fresh, and at what price."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from oracles import assert_normal
from played import bounded_of, summed_of
from sordino.aggregate.plain import PlainSum
from sordino.errors import SordinoError
from sordino.events import GaussianDpEvent, Guarantee, LaplaceDpEvent, Unbounded
from sordino.perturb.banded import BandedNoise
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.perturb.laplace import LocalLaplace
from sordino.perturb.no_noise import NoNoise
from sordino.perturb.quantile import UNCLIPPED, QuantileGaussian
from sordino.stages import Sensitivity, Summed
from sordino.terms import Knobs

ROWS, WIDTH = 40, 500
KNOBS = {"noise_multiplier": 1.5, "clip_norm": 0.4}


def bounded(turn, rows=ROWS, width=WIDTH, clipped=0):
    return bounded_of(turn, torch.zeros(rows, width), clipped=torch.arange(rows) < clipped)


def summed(total=None, weight=10.0, **side):
    """A sum of nine clients, each of whom says that its message carries the multiplier."""
    total, squares = torch.zeros(WIDTH * 20) if total is None else total, KNOBS["noise_multiplier"] ** 2
    bound = Sensitivity(KNOBS["clip_norm"], 2, "client", "the test says so")
    return Summed(total, np.arange(9), weight, 9 * squares, squares, bound, side)


def shielded(part, turn, **more):
    return part.shield(bounded(turn, **more), turn).message


def test_what_leaves_a_client_carries_its_noise(make_turn):
    assert_normal(shielded(LocalGaussian(), make_turn(**KNOBS)).rows.numpy(), 0.6)


def test_a_local_release_adds_nothing_and_tells_its_noise(make_turn):
    turn = make_turn(**KNOBS)
    released = LocalGaussian().release(summed(torch.ones(4)), turn)
    assert torch.allclose(released.mean, torch.tensor(0.1))
    assert released.stddev == pytest.approx(0.6 * 3 / 10)


def test_the_servers_noise_is_on_the_sum_and_told_on_the_mean(make_turn):
    released = CentralGaussian().release(summed(), make_turn(**KNOBS))
    assert_normal(released.mean.numpy() * 10, 0.6)
    assert released.stddev == pytest.approx(0.06)


@pytest.mark.parametrize("part", [CentralGaussian(), QuantileGaussian(4.0), BandedNoise((1.0,))])
def test_sums_of_more_clients_than_their_rounding_is_bounded_for_are_refused(part, make_turn):
    turn, few = make_turn(**KNOBS).but(weights=torch.zeros(4)), summed(torch.zeros(4))
    part.release(replace(few, survivors=np.arange(100_000)), turn)
    with pytest.raises(SordinoError, match="100,000 clients"):
        part.release(replace(few, survivors=np.arange(100_001)), turn)


def test_central_shield_is_the_row_itself(make_turn):
    turn = make_turn(**KNOBS)
    group = bounded_of(turn, torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(CentralGaussian().shield(group, turn).message.rows, group.rows)


@pytest.mark.parametrize("part", [LocalGaussian(), LocalLaplace()])
def test_noise_is_fresh_for_every_client_and_round_and_repeats_by_seed(part, make_turn):
    first = shielded(part, make_turn(1, **KNOBS)).rows
    again = shielded(part, make_turn(1, **KNOBS)).rows
    later = shielded(part, make_turn(2, **KNOBS)).rows
    other = shielded(part, make_turn(1, seed=1, **KNOBS)).rows
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
    turn = make_turn(**KNOBS)
    whole = shielded(LocalGaussian(), turn).rows
    part = bounded_of(turn, torch.zeros(2, WIDTH), np.array([7, 3]))
    assert torch.equal(LocalGaussian().shield(part, turn).message.rows, whole[[7, 3]])


def test_laplace_noise_has_its_scale(make_turn):
    rows = np.abs(shielded(LocalLaplace(), make_turn(**KNOBS)).rows.numpy().astype(float)).ravel()
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
    count = summed(torch.zeros(1), unclipped=torch.zeros(1))
    bits = [float(part.release(count, make_turn(r, **KNOBS)).side["unclipped"][0]) for r in range(1, 600)]
    assert_normal((np.array(bits) - 0.5) * 10, 2.0)
    # the two parts of the release together cost one Gaussian of the multiplier that is charged
    assert (1 / multiplier**2 + 0.25 / 2.0**2) ** -0.5 == pytest.approx(1.5)


def test_the_bit_means_not_clipped(make_turn):
    message = shielded(QuantileGaussian(2.0), make_turn(**KNOBS), rows=4, clipped=3)
    assert message.side["unclipped"].ravel().tolist() == [-0.5, -0.5, -0.5, 0.5]


def test_prices():
    knobs = Knobs(**KNOBS)
    local = dict(LocalGaussian().price(knobs))
    assert local == {
        Guarantee("client", "server", "zero_out"): GaussianDpEvent(1.5),
        Guarantee("client", "outsider", "zero_out"): GaussianDpEvent(1.5),
    }
    replaced = dict(LocalGaussian(adjacency="replace").price(knobs))
    assert set(replaced) == {Guarantee("client", "server", "replace"), Guarantee("client", "outsider", "replace")}
    assert set(replaced.values()) == {GaussianDpEvent(0.75)}
    central = dict(CentralGaussian().price(knobs))
    assert isinstance(central[Guarantee("client", "server", "zero_out")], Unbounded)
    assert central[Guarantee("client", "outsider", "add_remove")] == GaussianDpEvent(1.5)
    assert dict(LocalLaplace().price(knobs))[Guarantee("client", "server", "zero_out")] == LaplaceDpEvent(1.5)
    assert dict(QuantileGaussian(2.0).price(knobs)) == central
    nothing = NoNoise().price(knobs)
    assert {guarantee.observer for guarantee, _ in nothing} == {"server", "outsider"}
    assert all(isinstance(event, Unbounded) for _, event in nothing)
    assert dict(QuantileGaussian(2.0).price(knobs))[Guarantee("client", "outsider", "add_remove")] == GaussianDpEvent(
        1.5
    )


def test_halves_are_added_up_exactly_however_many_there_are(make_turn):
    """In single precision counts beyond 2^23 have no halves: one record of 17 million moved a count by a whole."""
    turn = make_turn(**KNOBS)
    counts = []
    for records in (2, 3):
        held = torch.tensor([2.0**23, records / 2], dtype=torch.float64)[:, None]
        group = bounded_of(turn, torch.zeros(2, len(turn.weights)), side={UNCLIPPED: held})
        counts.append(float(summed_of(QuantileGaussian(4.0, "record"), PlainSum(1.0), turn, group).side[UNCLIPPED]))
    assert counts[1] - counts[0] == 0.5

"""Sums and counts on the grid: how far one unit moves what is rounded, how much noise there is, and whose."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import assert_normal
from sordino.audit.crowd import CrowdStreams
from sordino.errors import SordinoError
from sordino.random.keystream import SharedKeystream, named_key
from sordino.random.on_grid import SumGrid, noisy_counts, noisy_rows, noisy_sums
from sordino.random.streams import Entropy, Streams


@settings(max_examples=100, deadline=None)
@given(
    width=st.integers(1, 200),
    norm=st.floats(1e-3, 1e3),
    z=st.floats(0, 1e6),
    far=st.floats(0, 1e5),
    seed=st.integers(0, 99),
)
def test_one_unit_moves_a_rounded_sum_by_at_most_the_bound(width, norm, z, far, seed):
    rng = np.random.default_rng(seed)
    grid = SumGrid.fitting(width, norm, z)
    rest, unit = rng.standard_normal(width) * norm * far, rng.standard_normal(width)
    unit *= norm / np.linalg.norm(unit)
    both = grid.to_integers(torch.from_numpy(np.stack([rest, rest + unit])))
    moved = np.linalg.norm((both[1] - both[0]).astype(float)) * 2.0**grid.exponent
    assert moved <= grid.bound
    if z <= 100:
        assert grid.bound <= norm * (1 + 1e-5)


def test_rounding_alone_would_exceed_the_norm():
    grid = SumGrid(100, 1.0, -4)
    rest = torch.full((1, 100), 2.0**-5 - 1e-9, dtype=torch.float64)
    moved = grid.to_integers(rest + 0.1 * (1 - 1e-12)) - grid.to_integers(rest)
    assert 1.0 < np.linalg.norm(moved) / 16 <= grid.bound


@pytest.mark.parametrize("z", [0.5, 3.0, 200.0])
def test_noise_has_its_size(z):
    keys = Streams(1).keys("noise", 1, np.arange(3))
    zeros = torch.zeros(3, 5000)
    assert_normal(noisy_sums(zeros, 0.4, z, keys).numpy(), z * 0.4)
    assert_normal(noisy_rows(zeros, 0.4, z, keys).numpy(), z * 0.4)
    assert_normal(noisy_counts(zeros, z, keys).numpy(), z)


def test_noise_of_none_rounds_alone():
    rows = torch.randn(2, 30, generator=torch.Generator().manual_seed(0)) * 0.01
    for noisy in (noisy_sums, noisy_rows):
        assert torch.allclose(noisy(rows, 1.0, 0.0, Entropy().keys("", 0, np.arange(2))), rows, atol=1e-5)
    assert noisy_counts(torch.tensor([[3.5, -2.0]]), 0.0, Entropy().keys("", 0, np.arange(1))).tolist() == [[3.5, -2.0]]


def test_a_crowds_keys_give_each_client_its_own_noise_and_repeat():
    zeros, streams = torch.zeros(5, 301), CrowdStreams(3)
    everybody = noisy_rows(zeros, 1.0, 2.0, streams.keys("shield", 1, np.arange(5)))
    some = noisy_rows(zeros[:3], 1.0, 2.0, streams.keys("shield", 1, np.array([4, 0, 4])))
    assert torch.equal(some, everybody[[4, 0, 4]])
    assert len(torch.unique(everybody)) > 1500 - 10
    later = noisy_rows(zeros, 1.0, 2.0, streams.keys("shield", 2, np.arange(5)))
    assert not (later == everybody).all(dim=1).any()
    crowd = noisy_rows(torch.zeros(20_000, 3), 1.0, 2.0, streams.keys("shield", 1, np.arange(20_000)))
    assert_normal(crowd.numpy(), 2.0)


def test_a_shared_keystream_has_words_by_place_and_bits_by_row():
    shared = SharedKeystream(named_key("a"), np.array([7, -1, 7]))
    whole, half = np.empty((3, 8), np.uint64), np.empty((1, 4), np.uint64)
    shared.fill(whole, np.arange(3), 0)
    shared.fill(half, np.array([2]), 4)
    assert (whole[0] == whole[2]).all() and (half[0] == whole[0, 4:]).all() and len(np.unique(whole[:2])) == 16
    assert shared.further(0, 5, 1) == shared.further(2, 5, 1) != shared.further(1, 5, 1)


def test_keys_are_named_by_all_that_names_a_stream_and_fresh_in_deployment():
    names = [("a", 1, 1), ("b", 1, 1), ("a", 2, 1), ("a", 1, 2)]
    keys = [Streams(seed).keys(p, r, np.array([c]))[0] for seed in (0, 1) for p, r, c in names]
    assert len(set(keys)) == 8 and all(len(key) == 32 for key in keys)
    assert keys[0] == Streams(0).keys("a", 1, np.array([5, 1]))[1]
    assert len(set(Entropy().keys("a", 1, np.arange(50)))) == 50


def test_a_sum_that_is_not_a_number_is_never_released():
    with pytest.raises(SordinoError, match="not a number"):
        noisy_sums(torch.tensor([[0.0, torch.nan]]), 1.0, 1.0, Streams(0).keys("noise", 1, np.array([0])))

"""From floats to residues and back: bounded whatever comes in, right on average, and never wrapped."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aggregate.rounding import round_row
from sordino.aggregate.integers import Grid, from_residues, reduce, to_residues, word
from sordino.errors import DataError, RecipeError
from sordino.events import Skellam


def rng(seed=0):
    return np.random.default_rng(seed)


@settings(deadline=None)
@given(arrays(np.float64, 12, elements=st.floats(-1e308, 1e308)), st.floats(0.01, 1e4), st.floats(0.01, 0.9))
def test_the_norm_is_bounded_whatever_comes_in(row, scale, bias):
    grid = Grid(12, 1.5, scale, bias)
    rounded = round_row(grid, row, rng())
    assert sum(int(z) ** 2 for z in rounded) <= grid.squared_norm
    assert np.abs(rounded).sum() <= grid.l1_sensitivity() + 1e-9


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(entry):
    row = np.zeros(4)
    row[2] = entry
    with pytest.raises(DataError, match="finite"):
        round_row(Grid(4, 1.0, 10.0), row, rng())
    with pytest.raises(DataError, match="shape"):
        round_row(Grid(4, 1.0, 10.0), np.zeros(5), rng())


def test_rows_are_clipped_and_never_stretched():
    grid = Grid(1000, 1.0, 1e6)
    for norm, expected in ((3.0, 1.0), (0.25, 0.25), (0.0, 0.0)):
        row = rng(1).standard_normal(1000)
        rounded = round_row(grid, row / np.linalg.norm(row) * norm, rng()) / grid.scale
        assert np.linalg.norm(rounded) == pytest.approx(expected, abs=1e-4)


def test_rounding_is_right_on_average():
    grid = Grid(8, 1.0, 2.0, bias=1e-9)
    row = rng(2).standard_normal(8)
    row *= 0.9 / np.linalg.norm(row)
    mean = np.mean([round_row(grid, row, rng(s)) / grid.scale for s in range(20_000)], axis=0)
    assert np.abs(mean - row).max() < 5 * 0.25 / math.sqrt(20_000)
    assert np.abs(mean - 1.1 * row).max() > 5 * 0.25 / math.sqrt(20_000)


@pytest.mark.parametrize(("width", "length"), [(5, 2.0), (400, 5.0), (400, 100.0)])
def test_a_draw_is_accepted_as_often_as_the_bound_says(width, length):
    # plain randomised rounding exceeds the bound with probability at most β, for any row of norm up to clip_norm
    bias = 0.2
    grid = Grid(width, 1.0, length, bias)
    for row in (np.full(width, length / math.sqrt(width)), np.eye(width)[0] * length):
        draws = np.floor(row + rng().random((4000, width)))
        assert ((draws**2).sum(1) > grid.squared_norm).mean() <= bias + 5 * math.sqrt(bias / 4000)


def test_a_row_that_is_refused_for_ever_is_truncated():
    class Stubborn:
        def random(self, width):
            return np.full(width, 0.999999)  # always up

    grid = Grid(100, 1.0, 1.0, bias=0.9)
    rounded = round_row(grid, np.full(100, 0.1), Stubborn())
    assert not rounded.any()


def test_the_bound_is_the_published_one():
    # c² + d/4 + √(2 ln(1/β))·(c + √d/2) in grid units, or (c + √d)² where that is smaller
    slack = math.sqrt(2 * math.log(1e6))
    assert Grid(10_000, 2.0, 300.0).squared_norm == math.floor(600**2 + 2500 + slack * 650)
    assert Grid(4, 1.0, 1.0, bias=1e-30).squared_norm == 9


def test_sensitivities_are_those_of_the_rounded_vector():
    grid = Grid(100, 1.0, 50.0)
    l2 = math.sqrt(grid.squared_norm)
    assert grid.event(7.0) == Skellam(7.0, l2, 10 * l2)
    assert grid.event(7.0, "replace") == Skellam(7.0, 2 * l2, 20 * l2)
    tiny = Grid(10**6, 1.0, 1.0, bias=0.999)  # mostly zeros: the squared norm is the smaller bound on the L1 norm
    assert Grid(10**6, 1.0, 5.0, 0.5).l1_sensitivity() <= Grid(10**6, 1.0, 5.0, 0.5).squared_norm
    assert tiny.l1_sensitivity() == tiny.squared_norm < 1000 * math.sqrt(tiny.squared_norm)


@pytest.mark.parametrize("inflation", [0.001, 0.01, 0.3])
def test_a_fine_grid_costs_no_more_than_it_says(inflation):
    grid = Grid.fine(5000, 0.5, inflation)
    assert grid.l2_sensitivity() / (grid.clip_norm * grid.scale) == pytest.approx(1 + inflation, rel=1e-3)
    coarser = Grid(5000, 0.5, grid.scale * 0.8)
    assert coarser.l2_sensitivity() / (coarser.clip_norm * coarser.scale) > 1 + inflation


def test_the_modulus_holds_the_worst_sum_and_not_much_more():
    grid = Grid(10, 1.0, 100.0)
    largest = math.isqrt(grid.squared_norm)
    for cohort in (1, 3, 17, 100):
        bits = grid.modulus_bits(cohort, 0.0)
        assert 2 ** (bits - 1) > cohort * largest >= 2 ** (bits - 2) - 1
        worst = np.full((cohort, 4), -largest)
        total = to_residues(worst, bits).sum(0, dtype=word(bits))
        assert (from_residues(reduce(total, bits), bits) == -cohort * largest).all()


@pytest.mark.parametrize("variance", [4.0, 900.0])
def test_noise_leaves_the_modulus_as_rarely_as_stated(variance):
    grid = Grid(1, 1e-3, 1.0)
    wrap = 0.05
    room = 2 ** (grid.modulus_bits(1, variance, wrap) - 1) - math.isqrt(grid.squared_norm)
    noise = rng(3).poisson(variance / 2, 200_000) - rng(4).poisson(variance / 2, 200_000)
    assert (np.abs(noise) >= room).mean() < wrap
    assert grid.modulus_bits(1, variance, 2.0**-200) > grid.modulus_bits(1, variance, 0.5)


@given(st.integers(1, 64), st.data())
def test_residues_decode_exactly(bits, data):
    edge = 2 ** (bits - 1)
    values = np.array(data.draw(st.lists(st.integers(-edge, edge - 1), min_size=1, max_size=9)), np.int64)
    residues = to_residues(values, bits)
    assert residues.dtype == word(bits)
    assert (from_residues(residues, bits) == values).all()
    assert all(int(residue) < 2**bits for residue in residues)


@pytest.mark.parametrize(
    ("bits", "kind"), [(1, np.uint8), (8, np.uint8), (9, np.uint16), (24, np.uint32), (33, np.uint64)]
)
def test_words_are_the_smallest_that_hold_the_residues(bits, kind):
    assert word(bits) is kind


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Grid(0, 1.0, 1.0),
        lambda: Grid(5, -1.0, 1.0),
        lambda: Grid(5, 1.0, float("nan")),
        lambda: Grid(5, 1.0, 1.0, bias=1.0),
        lambda: Grid(5, 1.0, 2.0**31),
        lambda: Grid(5, 1.0, 2.0**30).modulus_bits(2**40, 0.0),
        lambda: word(65),
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(RecipeError):
        wrong()

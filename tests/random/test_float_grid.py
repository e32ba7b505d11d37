"""Rows of floats on the grid: the norm bound in exact arithmetic, what is lost, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from sordino.errors import DataError, RecipeError
from sordino.random.float_grid import FINEST_NOISE, FloatGrid


def hard_rows(grid, draw):
    """Rows at the bound, beyond it, at half steps (all of which round away from zero), tiny, huge, and zero."""
    width, step = grid.width, grid.step
    full = draw.standard_normal((4, width))
    full *= grid.bound / np.linalg.norm(full, ord=grid.order, axis=1, keepdims=True)
    entry = grid.bound / (math.sqrt(width) if grid.order == 2 else width)
    half = np.full(width, (math.floor(entry / step) - 0.5) * step)
    one = np.eye(1, width)[0] * grid.bound
    return np.stack(
        [*full, *(full * 1e6), *(full * 1e-9), half, half + step, -half, one, -one * 2, one * 0, one * 1e300]
    )


def length(row, order):
    return sum(abs(int(k)) for k in row) if order == 1 else sum(int(k) ** 2 for k in row)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("width", [1, 2, 650, 40_000])
@pytest.mark.parametrize("bound", [1.0, 0.1, 3.7e-5, 1e6])
@pytest.mark.parametrize("coarse", [0, 9])
def test_integers_never_exceed_the_bound(order, width, bound, coarse):
    fine = FloatGrid.fitting(width, bound, bound, order)
    grid = FloatGrid(width, bound, fine.exponent + coarse, order)
    rows = hard_rows(grid, np.random.default_rng(width))
    rows[-1] = np.minimum(rows[-1], 1e150)
    most = (Fraction(bound) / Fraction(grid.step)) ** order
    for kind in (np.float64, np.float32):
        some = np.clip(rows, -3e38, 3e38).astype(kind)
        integers = grid.to_integers(some)
        for before, row in zip(some, integers, strict=True):
            assert length(row, order) <= most
            if order == 2:
                assert length(row, 2) <= grid.squared_norm <= most
            assert length(row, 1) <= grid.l1_sensitivity()
            assert row.any() or abs(before).max() <= grid.step  # none was given up


@pytest.mark.parametrize("order", [1, 2])
def test_little_is_lost(order):
    grid = FloatGrid.fitting(5000, 2.0, 3.0, order)
    assert 0 < grid.loss <= (1e-5 if grid.dtype(3.0) == np.int64 else 1e-4)
    rows = hard_rows(grid, np.random.default_rng(1))[:4]
    back = grid.to_floats(grid.to_integers(torch.from_numpy(rows)))
    assert np.linalg.norm(back - rows, ord=order, axis=1).max() <= 2.0 * 2.1 * max(1e-5, grid.loss)
    assert np.linalg.norm(back - rows, ord=order, axis=1).max() > 1e-8  # it did round
    short = rows * 0.9
    assert abs(grid.to_floats(grid.to_integers(short)) - short).max() <= grid.step / 2


def test_a_row_that_rounding_lengthens_is_truncated():
    # reach leaves room for every rounding; without it, the check alone must keep the bound
    grid = FloatGrid(4, 8.0, 0)
    rows = np.array([[3.5, 3.5, 3.5, 3.5], [7.99, 0.49, 0.49, 0.49]])

    class Tight(FloatGrid):
        loss = 0.0

    tight = Tight(4, 7.5, 0)
    assert (tight.to_integers(rows[:1]) == [3, 3, 3, 3]).all()
    assert length(grid.to_integers(rows[:1])[0], 2) <= 64


def test_sensitivities_and_units_are_exact():
    grid = FloatGrid.fitting(650, 0.3, 1.7)
    assert Fraction(grid.l2_sensitivity()) * Fraction(grid.step) == Fraction(0.3)
    assert Fraction(grid.in_steps(1.7)) * Fraction(grid.step) == Fraction(1.7)
    assert grid.l2_sensitivity("replace") == 2 * grid.l2_sensitivity()
    assert grid.l1_sensitivity("replace") == 2 * grid.l1_sensitivity() == 2 * math.isqrt(650 * grid.squared_norm)
    assert FloatGrid(3, 1.0, -4, 1).l1_sensitivity() == 16
    assert FloatGrid(4, 1.0, -2).l1_sensitivity() == 8 and FloatGrid(100, 1.0, -4).l1_sensitivity() == 160


def test_types_and_room():
    grid = FloatGrid.fitting(1000, 1.0, 1.0)
    assert grid.dtype(1.0) == np.int32 and grid.dtype(1e5) == np.int64
    assert grid.to_integers(np.ones((2, 1000)), grid.dtype(1.0)).dtype == np.int32
    for width, stddev in ((10**6, 1.0), (10**9, 100.0), (1, 1e9), (10, 0.0), (10, 1e-9)):
        for order in (1, 2):
            try:
                grid = FloatGrid.fitting(width, 1.0, stddev, order)
            except RecipeError:
                assert width * stddev > 1e10  # nothing of such rows would be left
                continue
            assert grid.in_steps(stddev) <= FINEST_NOISE
            assert 2**20 * grid.length + 2**10 * 16 * grid.in_steps(stddev) < 2**63  # a sum of 2^20 clients
            assert grid.loss <= 1e-5 or grid.in_steps(stddev) > FINEST_NOISE / 2 or grid.length > 2**40
            assert not stddev or grid.in_steps(stddev) > 90 or grid.length > 2**40


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e200])
def test_rows_that_are_not_finite_are_refused(bad):
    rows = np.ones((3, 10))
    rows[1, 4] = bad
    with pytest.raises(DataError, match="not finite"):
        FloatGrid.fitting(10, 1.0, 1.0).to_integers(rows)


def test_impossible_grids_are_refused():
    for width, bound, stddev in (
        (0, 1.0, 1.0),
        (5, 0.0, 1.0),
        (5, math.nan, 1.0),
        (5, math.inf, 1.0),
        (5, 1.0, math.nan),
        (5, 1.0, -1.0),
    ):
        with pytest.raises(RecipeError, match="must be"):
            FloatGrid.fitting(width, bound, stddev)
    with pytest.raises(RecipeError, match="choose a step"):
        FloatGrid(100, 1.0, 0)
    with pytest.raises(RecipeError, match="choose a step"):
        FloatGrid(100, 1.0, -60)
    with pytest.raises(DataError, match="shape"):
        FloatGrid.fitting(10, 1.0, 1.0).to_integers(np.ones((2, 9)))

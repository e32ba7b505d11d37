"""Clipping: the bound holds for anything that comes in, and what need not be clipped is left alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.bound.l2 import Clip, PerExample, Unlimited, clip_rows
from sordino.errors import SordinoError
from sordino.stages import Update

anything = st.floats(width=32, allow_nan=True, allow_infinity=True)


def update(rows, **more):
    return Update(np.arange(len(rows)), rows, np.arange(1, len(rows) + 1), **more)


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(anything, min_size=4, max_size=4), min_size=1, max_size=5),
    clip_norm=st.floats(1e-3, 1e3),
    order=st.sampled_from([1.0, 2.0]),
)
def test_norm_is_bounded_whatever_comes_in(rows, clip_norm, order):
    clipped, changed = clip_rows(torch.tensor(rows), clip_norm, order)
    norms = torch.linalg.vector_norm(clipped.double(), order, dim=1)
    assert torch.isfinite(clipped).all()
    assert (norms <= clip_norm).all()
    assert changed.shape == (len(rows),)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_norm_is_bounded_in_every_precision(dtype):
    rows = torch.randn(50, 1000, generator=torch.Generator().manual_seed(1)).to(dtype) * 100
    clipped, changed = clip_rows(rows, 1.0)
    assert (torch.linalg.vector_norm(clipped.double(), dim=1) <= 1).all()
    assert changed.all()


def test_clipping_keeps_direction_and_leaves_small_rows_alone():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    clipped, changed = clip_rows(rows, 1.0)
    assert torch.allclose(clipped[0], torch.tensor([0.6, 0.8]), atol=1e-5)
    assert torch.equal(clipped[1:], rows[1:])
    assert changed.tolist() == [True, False, False]


def test_huge_finite_rows_keep_their_direction():
    clipped, _ = clip_rows(torch.full((1, 4), 1e29), 1.0)
    assert torch.allclose(clipped, torch.full((1, 4), 0.5), atol=1e-5)


def test_clip_uses_the_turns_clip_norm_and_weights_everybody_alike(make_turn):
    bounded = Clip().bound(update(torch.ones(3, 4)), make_turn(clip_norm=0.5))
    assert torch.allclose(torch.linalg.vector_norm(bounded.rows, dim=1), torch.tensor(0.5), atol=1e-5)
    assert bounded.weights.tolist() == [1, 1, 1]


def test_per_example_takes_only_rows_that_the_trainer_vouches_for(make_turn):
    turn = make_turn(clip_norm=1.0)
    rows = torch.full((2, 3), 7.0)
    assert torch.equal(PerExample().bound(update(rows, example_clip=1.0), turn).rows, rows)
    with pytest.raises(SordinoError, match="per-example"):
        PerExample().bound(update(rows), turn)
    with pytest.raises(SordinoError, match="per-example"):
        PerExample().bound(update(rows, example_clip=2.0), turn)
    with pytest.raises(SordinoError, match="not finite"):
        PerExample().bound(update(rows / 0, example_clip=1.0), turn)


def test_unlimited_weights_by_size(make_turn):
    bounded = Unlimited().bound(update(torch.ones(2, 3)), make_turn())
    assert bounded.rows.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert bounded.weights.tolist() == [1, 2]

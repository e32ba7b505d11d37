"""Weighted clipping: nobody counts for more than clip_norm, however much data it holds or pretends to hold."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sordino.bound.weighted import StayNear, WeightedClip
from sordino.random.streams import Streams
from sordino.stages import Update
from sordino.terms import Knobs, Terms, Turn

rows = arrays.arrays(
    np.float32, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=st.floats(width=32, allow_nan=True)
)


def turn(clip_norm: float) -> Turn:
    return Turn(Terms(1, torch.zeros(1), Knobs(clip_norm, 1.0)), Streams(0))


@given(rows, st.integers(1, 10**9), st.floats(0.01, 100), st.integers(1, 10**6))
def test_no_row_exceeds_the_clip_norm(values, size, clip_norm, limit):
    update = Update(np.arange(len(values)), torch.from_numpy(values), np.full(len(values), size))
    bounded = WeightedClip(limit).bound(update, turn(clip_norm))
    norms = torch.linalg.vector_norm(bounded.rows, dim=1, dtype=torch.float64)
    assert bool((norms <= clip_norm).all()) and bool((bounded.weights <= 1).all())
    assert bool((norms <= clip_norm * bounded.weights.double() * (1 + 1e-5) + 1e-30).all())


@given(rows, st.floats(0.01, 100))
def test_projection_stays_near_the_start(values, radius):
    start = torch.linspace(-1, 1, values.shape[1])
    near = StayNear(radius)(torch.from_numpy(values), start)
    assert bool((torch.linalg.vector_norm(near - start, dim=1) <= radius * (1 + 1e-5) + 1e-6).all())


def test_projection_leaves_close_weights_alone():
    start, close = torch.zeros(3), torch.tensor([[0.1, 0.2, 0.0], [0.0, 0.0, 0.3]])
    assert torch.equal(StayNear(1.0)(close, start), close)

"""Bounds in public units: the scaled norm never exceeds the clip norm, and the box lies inside the ball."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.adapt.movement import shares
from sordino.bound.scaled import ScaledClip
from sordino.stages import Update

anything = st.floats(width=32, allow_nan=True, allow_infinity=True)
WIDTH = 6


def update(rows):
    return Update(np.arange(len(rows)), rows, np.ones(len(rows), np.int64))


def with_scales(turn, amplitude, allocation="least_energy"):
    amplitude = amplitude / amplitude.square().mean().sqrt()
    return turn.but(knobs=turn.knobs.but(amplitude=amplitude, scales=shares(amplitude, allocation)))


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(anything, min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=4),
    amplitude=st.lists(st.floats(1e-3, 1e3), min_size=WIDTH, max_size=WIDTH),
    clip_norm=st.floats(1e-3, 1e3),
    shape=st.sampled_from(["ball", "box"]),
    allocation=st.sampled_from(["equal", "least_energy"]),
    predicted=st.none() | st.lists(st.floats(-1e3, 1e3), min_size=WIDTH, max_size=WIDTH),
)
def test_the_scaled_norm_is_bounded_whatever_comes_in(
    rows, amplitude, clip_norm, shape, allocation, predicted, turn_factory
):
    turn = with_scales(turn_factory(clip_norm=clip_norm), torch.tensor(amplitude), allocation)
    if predicted is not None:
        turn = turn.but(knobs=turn.knobs.but(predicted=torch.tensor(predicted)))
    bounded = ScaledClip(shape).bound(update(torch.tensor(rows)), turn)
    assert torch.isfinite(bounded.rows).all()
    assert (bounded.rows.double().norm(dim=1) <= clip_norm).all()


@pytest.mark.parametrize("allocation", ["equal", "least_energy"])
def test_the_box_is_truncated_at_its_thresholds_and_touches_the_ball_at_its_corner(allocation, make_turn):
    amplitude = torch.tensor([0.1, 0.5, 1.0, 2.0, 0.3, 1.5])
    turn = with_scales(make_turn(clip_norm=0.7), amplitude, allocation)
    threshold = 0.7 * turn.knobs["amplitude"] / WIDTH**0.5
    corner = ScaledClip("box").bound(update(torch.full((1, WIDTH), 1e6)), turn)
    assert torch.allclose(corner.rows[0] * turn.knobs["scales"], threshold, rtol=1e-5)
    assert corner.rows.norm() == pytest.approx(0.7, rel=1e-5)
    inside = ScaledClip("box").bound(update(threshold[None] * 0.5), turn)
    assert torch.allclose(inside.rows * turn.knobs["scales"], threshold * 0.5)
    assert corner.clipped.all()
    assert not inside.clipped.any()


def test_the_ball_keeps_directions_and_small_updates(make_turn):
    turn = with_scales(make_turn(clip_norm=1.0), torch.tensor([1.0, 2.0, 1.0, 1.0, 1.0, 1.0]))
    small = torch.full((1, WIDTH), 1e-3)
    assert torch.allclose(ScaledClip().bound(update(small), turn).rows * turn.knobs["scales"], small)
    large = torch.arange(1.0, WIDTH + 1)[None] * 100
    scaled = ScaledClip().bound(update(large), turn)
    assert torch.allclose(
        scaled.rows / scaled.rows.norm(), (large / turn.knobs["scales"]) / (large / turn.knobs["scales"]).norm()
    )


def test_it_changes_nothing_that_it_was_given(make_turn):
    turn, rows = with_scales(make_turn(clip_norm=0.1), torch.rand(WIDTH) + 0.1), torch.randn(3, WIDTH)
    kept, scales = rows.clone(), turn.knobs["scales"].clone()
    first = ScaledClip("box").bound(update(rows), turn)
    assert torch.equal(rows, kept)
    assert torch.equal(turn.knobs["scales"], scales)
    assert torch.equal(first.rows, ScaledClip("box").bound(update(rows), turn).rows)


def test_the_box_cuts_each_component_by_itself(make_turn):
    turn = with_scales(make_turn(clip_norm=0.7), torch.tensor([0.1, 0.5, 1.0, 2.0, 0.3, 1.5]))
    threshold = 0.7 * turn.knobs["amplitude"] / WIDTH**0.5
    rows = torch.zeros(1, WIDTH)
    rows[0, 1], rows[0, 3] = 1e6, -float("inf")
    got = ScaledClip("box").bound(update(rows), turn).rows[0] * turn.knobs["scales"]
    expected = torch.tensor([0, float(threshold[1]), 0, -float(threshold[3]), 0, 0])
    assert torch.allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("shape", ["ball", "box"])
def test_updates_are_bounded_around_the_predicted_step(shape, make_turn):
    turn, predicted = with_scales(make_turn(clip_norm=0.5), torch.ones(WIDTH)), torch.linspace(-3, 3, WIDTH)
    turn = turn.but(knobs=turn.knobs.but(predicted=predicted))
    found = ScaledClip(shape).bound(update(torch.stack([predicted, predicted + 0.1, -predicted])), turn)
    assert torch.allclose(found.rows[:2], torch.tensor([[0.0], [0.1]]).expand(2, WIDTH), atol=1e-6)
    assert found.clipped.tolist() == [False, False, True]
    assert float(found.rows[2] @ predicted) < 0

"""Weights in a ball: after every step, and again before anything leaves the client."""

import numpy as np
import pytest
import torch

from sordino.bound.weights import ClipWeights, WeightBall
from sordino.stages import Update


def test_after_every_step_the_weights_themselves_are_clipped():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [float("nan"), 1.0]])
    got = ClipWeights(1.0)(rows, torch.tensor([9.0, 9.0]))
    assert torch.allclose(got, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]), atol=1e-5)


def test_what_is_sent_leads_into_the_ball_wherever_training_ended(make_turn):
    start = torch.tensor([0.5, 0.0])
    turn = make_turn(clip_norm=1.0).but(weights=start)
    update = Update(np.arange(2), torch.tensor([[30.0, 40.0], [0.1, 0.0]]), np.array([2, 10]))
    bounded = WeightBall().bound(update, turn)
    weights = start + bounded.rows / bounded.weights[:, None]
    assert weights[0].norm() == pytest.approx(1.0, rel=1e-5)
    assert torch.allclose(weights[1], torch.tensor([0.6, 0.0]), atol=1e-6)
    assert bounded.weights.tolist() == [2, 10]
    assert bounded.clipped.tolist() == [True, False]

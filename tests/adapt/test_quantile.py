"""The clip norm follows the quantile, by what was released."""

import math

import numpy as np
import pytest
import torch

from sordino.adapt.quantile import QuantileClip
from sordino.adapt.steady import Steady
from sordino.stages import Released


def released(share):
    return Released(torch.zeros(3), 0.1, (), {"unclipped": torch.tensor([share])})


@pytest.mark.parametrize(("share", "factor"), [(1.0, math.exp(-0.1)), (0.5, 1.0), (0.0, math.exp(0.1))])
def test_one_step(share, factor, make_turn):
    adapter = QuantileClip(2.0, 1.0, quantile=0.5, rate=0.2)
    knobs = adapter.adapt(make_turn(clip_norm=2.0, noise_multiplier=1.0), released(share), {})
    assert knobs.clip_norm == pytest.approx(2.0 * factor)
    assert knobs.noise_multiplier == 1.0


def test_it_finds_the_median(make_turn):
    norms = np.random.default_rng(0).lognormal(size=2001)
    adapter, clip_norm = QuantileClip(20.0, 1.0), 20.0
    for _ in range(200):
        turn = make_turn(clip_norm=clip_norm, noise_multiplier=1.0)
        clip_norm = adapter.adapt(turn, released(float((norms <= clip_norm).mean())), {}).clip_norm
    assert clip_norm == pytest.approx(np.median(norms), rel=0.02)


def test_steady_stays(make_turn):
    knobs = Steady(0.5, 3.0).start()
    assert knobs.scalars() == {"clip_norm": 0.5, "noise_multiplier": 3.0}
    turn = make_turn().but(knobs=knobs)
    assert Steady(0.5, 3.0).adapt(turn, released(0.0), {}) == turn.knobs

"""Noise by component: in scaled units the inner part's, in model units each component's own."""

import pytest
import torch

from oracles import assert_normal
from played import bounded_of, summed_of
from sordino.aggregate.plain import PlainSum
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.perturb.scaled import Scaled
from sordino.perturb.shares import GaussianShares

WIDTH, COHORT = 4000, 9
SCALES = torch.cat([torch.full((WIDTH // 2,), 0.25), torch.full((WIDTH // 2,), 3.0)])
PARTS = [LocalGaussian(), CentralGaussian(), GaussianShares(tolerance=0.0)]


def play(part, make_turn, rows=None, round_=1):
    turn = make_turn(round_, width=WIDTH, cohort=COHORT, noise_multiplier=2.0, clip_norm=0.5)
    turn = turn.but(knobs=turn.knobs.but(scales=SCALES))
    rows = torch.zeros(COHORT, WIDTH) if rows is None else rows
    return part.release(summed_of(part, PlainSum(10.0), turn, bounded_of(turn, rows)), turn)


@pytest.mark.parametrize("inner", PARTS)
def test_each_component_of_the_release_carries_noise_of_its_own_scale(inner, make_turn):
    # local: nine clients' noises add up; otherwise the whole noise is there once
    whole = 3.0 if isinstance(inner, LocalGaussian) else 1.0
    noise = play(Scaled(inner), make_turn).mean.numpy() * 10
    assert_normal(noise[: WIDTH // 2], whole * 0.25)
    assert_normal(noise[WIDTH // 2 :], whole * 3.0)


@pytest.mark.parametrize("inner", PARTS)
def test_the_level_that_is_told_is_the_root_mean_square(inner, make_turn):
    released = play(Scaled(inner), make_turn)
    assert released.stddev == pytest.approx(float(released.mean.double().square().mean().sqrt()), rel=0.05)


def test_contributions_come_back_in_model_units(make_turn):
    rows = torch.randn(COHORT, WIDTH, generator=torch.Generator().manual_seed(0)) * 1e4
    got = play(Scaled(CentralGaussian()), make_turn, rows / SCALES).mean
    assert torch.allclose(got, rows.sum(0) / 10, atol=2.0)


def test_price_and_noise_are_the_inner_parts(make_turn):
    knobs = make_turn(noise_multiplier=2.0, clip_norm=0.5).knobs
    assert Scaled(LocalGaussian()).price(knobs) == LocalGaussian().price(knobs)
    first, again, later = (play(Scaled(LocalGaussian()), make_turn, round_=r).mean for r in (1, 1, 2))
    assert torch.equal(first, again)
    assert not (first == later).any()

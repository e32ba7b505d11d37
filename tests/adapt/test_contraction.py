"""θ from how much a recipe forgets, without a look at data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from played import cast
from sordino.adapt.contraction import Contraction, best_theta, noise_left
from sordino.server.step import ServerStep


@pytest.mark.parametrize("rho", [0.8, 0.9, 0.99])
def test_where_a_round_keeps_a_share_theta_is_that_share(rho: float) -> None:
    contraction = Contraction(decay=1 - rho)
    assert contraction.reach(30) == pytest.approx(rho ** np.arange(30))
    assert best_theta(contraction, 30) == pytest.approx(rho, abs=1e-6)
    gain = noise_left(1.0, contraction.reach(40)) / noise_left(rho, contraction.reach(40))
    limit = 40 * (1 - rho) / (1 + rho)  # for many rounds
    if rho == 0.9:
        assert gain == pytest.approx(limit, rel=0.05) == pytest.approx(2.1, abs=0.1)


def test_where_nothing_is_forgotten_noise_is_constant_and_no_schedule_beats_it() -> None:
    assert best_theta(Contraction(), 40) == 1.0 == best_theta(Contraction(), 7)
    reach = Contraction().reach(20)
    assert all(noise_left(theta, reach) >= noise_left(1.0, reach) for theta in (0.7, 0.9, 1.05, 1.3))


def test_no_schedule_beats_the_bound_and_the_right_one_attains_it() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        reach = generator.random(12) + 0.01
        least = reach.sum() ** 2
        noise = generator.random(12) + 0.1
        assert (reach**2 @ noise) * (1 / noise).sum() >= least * (1 - 1e-12)
        assert (reach**2 @ (1 / reach)) * reach.sum() == pytest.approx(least)


@pytest.mark.parametrize(("decay", "rate", "momentum"), [(0.1, 1.0, 0.0), (0.05, 2.0, 0.9), (0.0, 0.5, 0.5)])
def test_the_reach_is_what_the_servers_own_step_makes_of_noise(decay: float, rate: float, momentum: float) -> None:
    step, state = ServerStep(rate, momentum, decay), {}
    weights = torch.zeros(1, dtype=torch.float64)
    for j, left in enumerate(Contraction(decay, momentum).reach(15)):
        weights, state = step.apply(weights, torch.full((1,), float(j == 0), dtype=torch.float64), state)
        assert float(weights) / rate == pytest.approx(left, rel=1e-9)


def test_with_momentum_the_last_rounds_reach_less_far_and_may_be_noisier() -> None:
    assert best_theta(Contraction(momentum=0.9), 20) > 1.01


def test_a_recipe_implies_its_theta() -> None:
    def theta(*settings: str) -> float:
        return cast("mechanism.name=geometric", *settings).mechanism.adapter.theta

    assert theta() == 1.0 and theta("mechanism.theta=1.3") == 1.3
    assert theta("server.weight_decay=0.03") == pytest.approx(0.97, abs=1e-6)
    assert theta("train.weight_decay=0.02") == 1.0, "what is clipped is not counted on"
    assert theta("server.momentum=0.9") > 1.0
    assert theta("mechanism.mode=faithful", "server.weight_decay=0.02") == 1.05

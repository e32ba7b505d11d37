"""Scales from released movement: noise is taken out, nothing is left without noise, allocations keep their budget."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.adapt.movement import Movement, shares
from sordino.stages import Released

WIDTH = 2000


def adapted(adapter, make_turn, means, stddev):
    knobs = adapter.start()
    for round_, mean in enumerate(means, 1):
        turn = make_turn(round_, width=WIDTH).but(knobs=knobs)
        size = float(knobs["scales"].double().square().mean().sqrt())
        knobs = adapter.adapt(turn, Released(mean(knobs["scales"].double()), stddev * size, ()), {})
    return knobs


def test_before_the_first_release_all_scales_are_one():
    knobs = Movement(WIDTH, 0.5, 2.0).start()
    assert (knobs["scales"] == 1).all()
    assert (knobs["amplitude"] == 1).all()
    assert knobs.noise_multiplier == 2.0
    assert knobs.clip_norm == 0.5


def test_it_finds_which_components_move_under_the_noise(make_turn):
    rng = torch.Generator().manual_seed(0)
    signal = torch.cat([torch.full((WIDTH // 2,), 3.0), torch.zeros(WIDTH // 2)]).double()
    means = [lambda s: signal + s * torch.randn(WIDTH, generator=rng).double()] * 30
    for allocation, power in (("equal", 1.0), ("least_energy", 0.5)):
        knobs = adapted(Movement(WIDTH, 1.0, 1.0, allocation), make_turn, means, 1.0)
        moving, resting = knobs["scales"][: WIDTH // 2].mean(), knobs["scales"][WIDTH // 2 :].mean()
        # 3² of signal above a floor of the noise's own energy: amplitudes √(9 + n²) to n, n² the mean noise energy
        assert 1.4**power < float(moving / resting) < 4**power


def test_pure_noise_leaves_the_scales_nearly_alike(make_turn):
    rng = torch.Generator().manual_seed(1)
    means = [lambda s: s * torch.randn(WIDTH, generator=rng).double()] * 40
    scales = adapted(Movement(WIDTH, 1.0, 1.0), make_turn, means, 1.0)["scales"]
    assert float(scales.max() / scales.min()) < 1.6
    assert float(scales.std() / scales.mean()) < 0.12


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(1e-4, 1e4), min_size=2, max_size=30))
def test_both_allocations_spend_the_same_and_least_energy_has_the_least(amplitude):
    a = torch.tensor(amplitude, dtype=torch.float64)
    a = a / a.square().mean().sqrt()
    equal, least = shares(a, "equal"), shares(a, "least_energy")
    for scales in (equal, least):
        assert float((a / scales).square().mean()) == pytest.approx(1.0)
    assert float(least.square().sum()) <= float(equal.square().sum()) * (1 + 1e-12)
    other = a.sqrt() * torch.linspace(0.5, 2, len(a)).double()
    other = other * (a / other).square().mean().sqrt()  # rescaled to spend the same
    assert float(least.square().sum()) <= float(other.square().sum()) * (1 + 1e-9)


def test_no_component_is_left_without_noise(make_turn):
    mean = torch.zeros(WIDTH).double()
    mean[0] = 1e6
    scales = adapted(Movement(WIDTH, 1.0, 1.0, "equal", floor=1e-9), make_turn, [lambda s: mean], 0.0)["scales"]
    assert (scales > 0).all()
    assert torch.isfinite(scales).all()


def test_a_release_that_is_not_finite_changes_nothing(make_turn):
    adapter = Movement(3, 1.0, 1.0)
    turn = make_turn(width=3).but(knobs=adapter.start())
    assert adapter.adapt(turn, Released(torch.tensor([1.0, np.inf, 0.0]), 1.0, ()), {}) is turn.knobs


def test_scales_depend_on_released_values_alone_and_inputs_are_left_alone(make_turn):
    adapter = Movement(3, 1.0, 1.0)
    knobs = adapter.start()
    kept = {name: value.clone() for name, value in knobs.tensors().items()}
    turn = make_turn(width=3).but(knobs=knobs)
    released = Released(torch.tensor([1.0, 2.0, 3.0]), 0.5, ())
    first, second = (adapter.adapt(turn, released, {"loss": loss}).tensors() for loss in (1.0, 2.0))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(torch.equal(knobs.tensors()[name], kept[name]) for name in kept)


def test_noise_of_the_expected_size_counts_as_no_movement_whatever_the_scales_were(make_turn):
    """Otherwise a scale would keep itself up: large scale, large noise, large movement."""
    adapter = Movement(WIDTH, 1.0, 1.0, "equal", decay=0.0)
    uneven = torch.cat([torch.full((WIDTH // 2,), 0.2), torch.full((WIDTH // 2,), 1.8)])
    turn = make_turn(width=WIDTH).but(knobs=adapter.start().but(scales=uneven))
    size = float(uneven.square().mean().sqrt())
    scales = adapter.adapt(turn, Released(uneven * 0.3, 0.3 * size, ()), {})["scales"]
    assert torch.allclose(scales, torch.ones(WIDTH), atol=1e-3)


def test_the_next_step_is_predicted_from_released_ones_and_nothing_from_noise(make_turn):
    rng = torch.Generator().manual_seed(3)
    signal = torch.linspace(-1, 1, WIDTH).double()

    def drawn(size):
        return [lambda s: size * signal + s * torch.randn(WIDTH, generator=rng).double()] * 40

    knobs = adapted(Movement(WIDTH, 1.0, 1.0, predict=True), make_turn, drawn(1.0), 1.0)
    predicted = knobs["predicted"].double()
    assert 0.8 < float(predicted @ signal) / float(signal @ signal) < 1.05
    # of pure noise the smoothed mean has length √(WIDTH·0.1/1.9) = 10.3; what is predicted is a small part of that
    nothing = adapted(Movement(WIDTH, 1.0, 1.0, predict=True), make_turn, drawn(0.0), 1.0)["predicted"]
    assert float(nothing.norm()) < 3
    assert "predicted" not in adapted(Movement(WIDTH, 1.0, 1.0), make_turn, drawn(1.0), 1.0)

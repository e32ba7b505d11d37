"""An attacker who looks at low bits alone: it tells who took part from float noise, and nothing from noise on the grid.

Setting: 650 weights, 40 rounds, local Gaussian noise for ε = 1 at δ = 1e-5, a contribution of norm 1 that the attacker
knows. Where a float message is much smaller than the contribution, the noise must have cancelled it: the message is
then a multiple of the contribution's own last place, while noise alone of that size has finer bits.
**Reference**: Mironov (2012), "On Significance of the Least Significant Bits for Differential Privacy".
"""

import numpy as np
import pytest
import torch

from sordino.random.float_grid import FloatGrid
from sordino.random.keystream import named_key
from sordino.random.noise import add_gaussian
from sordino.random.streams import Streams

WIDTH, ROUNDS, TRIALS, STDDEV = 650, 40, 40, 23.6


def contribution():
    row = np.random.default_rng(7).standard_normal(WIDTH)
    return (row / np.linalg.norm(row)).astype(np.float32)


def float_messages(row, trial):
    """Messages as single-precision noise makes them: float32 draws, scaled and added in float32."""
    noise = Streams(trial).normals("shield", 0, np.arange(ROUNDS), WIDTH)
    return (torch.from_numpy(row) + noise.mul_(STDDEV)).numpy().astype(np.float64)


def grid_messages(row, trial):
    grid = FloatGrid.fitting(WIDTH, 1.0, STDDEV)
    rows = grid.to_integers(np.repeat(row[None, :], ROUNDS, axis=0), grid.dtype(STDDEV))
    keys = [named_key(f"{trial}/{turn}") for turn in range(ROUNDS)]
    return grid.to_floats(add_gaussian(rows, grid.in_steps(STDDEV), keys))


def on_the_lattice_of(row, messages):
    """Whether every small message is a multiple of the contribution's last place, halved."""
    step = np.broadcast_to(np.spacing(np.abs(row)).astype(np.float64) / 2, messages.shape)
    small = np.abs(messages) < np.abs(row) / 4
    return bool((np.mod(messages[small], step[small]) == 0).all())


def even_steps(_row, messages):
    """Whether more than half of the messages are even, counted in steps of the grid."""
    return bool((np.mod(messages / FloatGrid.fitting(WIDTH, 1.0, STDDEV).step, 2) == 0).mean() > 0.5)


def agreeing_low_bits(row, messages):
    """Whether the low byte, in steps of the grid, agrees with the contribution's more often than not."""
    step = FloatGrid.fitting(WIDTH, 1.0, STDDEV).step
    difference = np.mod(np.rint(messages / step) - np.rint(row / step), 256)
    return bool((difference < 128).mean() > 0.5)


def right(messages, attack, first=0):
    """How often the attack is right, over trials of which half have the contribution."""
    row = contribution()
    told = [attack(row, messages(row * (t % 2), first + t)) == bool(t % 2) for t in range(TRIALS)]
    return sum(told)


def test_float_noise_gives_presence_away():
    assert right(float_messages, on_the_lattice_of) >= 36


@pytest.mark.parametrize("attack", [on_the_lattice_of, even_steps, agreeing_low_bits])
def test_noise_on_the_grid_does_not(attack):
    assert 10 <= right(grid_messages, attack) <= 30


def test_low_bits_on_the_grid_are_uniform_with_and_without():
    step, row = FloatGrid.fitting(WIDTH, 1.0, STDDEV).step, contribution()
    for present in (0, 1):
        low = np.concatenate([np.mod(grid_messages(row * present, 100 + t) / step, 64).ravel() for t in range(10)])
        counts = np.bincount(low.astype(np.int64), minlength=64)
        assert abs(counts - low.size / 64).max() < 5 * np.sqrt(low.size / 64)

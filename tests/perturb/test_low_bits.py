"""The attack on low bits, on what the mechanisms themselves send and release: float code is found, the grid is not.

The attacker knows a contribution, and tells from the low bits of small messages alone whether it is in them. Where a
float message is much smaller than the contribution, noise must have cancelled it, so it is a multiple of (half) the
contribution's last place; without it, such messages have finer bits.
**Reference**: Mironov (2012), "On Significance of the Least Significant Bits for Differential Privacy".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from played import bounded_of, cast
from sordino.mechanism import Mechanism
from sordino.random.streams import Streams
from sordino.stages import Sensitivity, Summed
from sordino.terms import Terms, Turn
from sordino.types import FloatArray

WIDTH, ROUNDS, TRIALS, MULTIPLIER = 650, 40, 40, 23.6
LAPLACE = 0.5
"""Entries of a contribution of L1 norm 1 are tiny: less noise, so that there are small messages to look at."""
LOCAL = ("fed_ldp", "laplace", "fed_cad", "geometric")
CENTRAL = ("dp_fedavg", "dp_fedavg_adaptive")

Messages = Callable[[torch.Tensor, int], FloatArray]


def contribution(order: int) -> torch.Tensor:
    row = np.random.default_rng(7).standard_normal(WIDTH)
    return torch.from_numpy((row / np.linalg.norm(row, order)).astype(np.float32)) * 0.999


def mechanism_of(name: str) -> Mechanism:
    more = ("mechanism.bit_stddev=50",) if name == "dp_fedavg_adaptive" else ()
    noise = LAPLACE if name == "laplace" else MULTIPLIER
    chosen = (f"mechanism.name={name}", "mechanism.clip_norm=1", f"mechanism.noise_multiplier={noise}", *more)
    return cast(*chosen, "budget.epsilon=none").mechanism


def turns(mechanism: Mechanism, trial: int) -> list[Turn]:
    knobs = mechanism.adapter.start()
    return [Turn(Terms(r + 1, torch.zeros(WIDTH), knobs, np.arange(1)), Streams(trial)) for r in range(ROUNDS)]


def sent(mechanism: Mechanism) -> Messages:
    """What one client sends, round after round."""
    order = mechanism.bounder.sensitivity(mechanism.adapter.start()).order

    def messages(row: torch.Tensor, trial: int) -> FloatArray:
        state, out = None, []
        for turn in turns(mechanism, trial):
            made = mechanism.perturber.shield(bounded_of(turn, row[None], order=order, state=state), turn)
            state = made.state
            out.append(made.message.rows[0].numpy().astype(np.float64))
        return np.stack(out)

    return messages


def released(mechanism: Mechanism) -> Messages:
    """What a trusted server releases of a sum that is this contribution, or nothing."""
    bound = Sensitivity(1.0, 2, "client", "the test says so", rowwise=False)

    def messages(row: torch.Tensor, trial: int) -> FloatArray:
        sums = Summed(row, np.arange(1), 1.0, 0.0, 0.0, bound, {"unclipped": torch.full((1,), 0.5)})
        means = [mechanism.perturber.release(sums, turn).mean for turn in turns(mechanism, trial)]
        return torch.stack(means).numpy().astype(np.float64)

    return messages


def floats(row: torch.Tensor, trial: int) -> FloatArray:
    """The same with noise in single precision, added in single precision: as it must not be done."""
    noise = Streams(trial).normals("shield", 0, np.arange(ROUNDS), WIDTH)
    return (row + noise.mul_(MULTIPLIER)).numpy().astype(np.float64)


def float_laplace(row: torch.Tensor, trial: int) -> FloatArray:
    draws = Streams(trial).generator("shield").laplace(0, LAPLACE, (ROUNDS, WIDTH))
    return (row + torch.from_numpy(draws).float()).numpy().astype(np.float64)


def on_the_lattice_of(row: FloatArray, messages: FloatArray) -> bool:
    """Whether every small message is a multiple of half of the contribution's last place."""
    step = np.broadcast_to(np.spacing(np.abs(row).astype(np.float32)).astype(np.float64) / 2, messages.shape)
    small = np.abs(messages) < np.abs(row) / 4
    return bool((np.mod(messages[small], step[small]) == 0).all())


def more_often(row: FloatArray, messages: FloatArray) -> bool:
    """Whether messages agree with the contribution in their lowest bits more often than not."""
    step = np.spacing(np.float32(np.abs(messages).max())) * 2.0**-8
    difference = np.mod(np.rint(messages / step) - np.rint(row / step), 256)
    return bool((difference < 128).mean() > 0.5)


def right(messages: Messages, attack: Callable[[FloatArray, FloatArray], bool], order: int) -> int:
    """How often the attack is right, over trials of which half have the contribution."""
    row = contribution(order)
    return sum(attack(row.numpy(), messages(row * (t % 2), t)) == bool(t % 2) for t in range(TRIALS))


@pytest.mark.parametrize(("old", "order"), [(floats, 2), (float_laplace, 1)])
def test_float_noise_is_found(old: Messages, order: int) -> None:
    assert right(old, on_the_lattice_of, order) == TRIALS


@pytest.mark.parametrize("attack", [on_the_lattice_of, more_often])
@pytest.mark.parametrize("name", [*LOCAL, *CENTRAL])
def test_mechanisms_give_nothing_away(name: str, attack: Callable[[FloatArray, FloatArray], bool]) -> None:
    mechanism = mechanism_of(name)
    messages = (sent if name in LOCAL else released)(mechanism)
    assert 10 <= right(messages, attack, 1 if name == "laplace" else 2) <= 30

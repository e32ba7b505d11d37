"""What clients remember between rounds: passed into a client's side of a round, and returned by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class ClientState:
    """One row a client of whatever its mechanism remembers, and which clients remember anything.

    **Edge cases**: a mechanism without memory has rows of no width; a client that never took part has zeros.
    """

    rows: Tensor
    known: BoolArray

    @classmethod
    def blank(cls, clients: int) -> ClientState:
        """Returns the state of clients that remember nothing."""
        return cls(torch.zeros(clients, 0), np.zeros(clients, bool))


@dataclass(frozen=True, eq=False)
class NoiseMemory:
    """What a client with time-correlated noise remembers of its last participation.

    **Edge cases**: a client that never took part remembers nothing: `known` is False, the vectors are zero, and the
    noise's relative variance counts as 1.
    """

    known: Tensor
    update: Tensor
    """Its last bounded update."""
    message: Tensor
    """What it sent then, noise included: exactly as it left."""
    variance: Tensor
    """Variance of the message's noise over the squared standard deviation of fresh noise, in double precision."""
    difference: Tensor
    """The client's own bound on how far updates move, where a faithful mechanism adapts it privately."""

    @classmethod
    def recall(cls, state: ClientState, width: int, difference: float) -> NoiseMemory:
        """Reads what the clients remember; `difference` is what newcomers start from."""
        rows = state.rows if state.rows.shape[1] else torch.zeros(len(state.known), 2 * width + 2)
        there = torch.from_numpy(state.known)
        return cls(
            there,
            rows[:, :width],
            rows[:, width : 2 * width],
            rows[:, -2].double().where(there, torch.ones((), dtype=torch.float64)),
            rows[:, -1].double().where(there, torch.tensor(difference, dtype=torch.float64)),
        )


def remembered(clients: IntArray, update: Tensor, message: Tensor, numbers: Tensor) -> ClientState:
    """Returns the state to keep: bounded updates, messages as sent, and `numbers` (variance, difference)."""
    return ClientState(torch.cat([update, message, numbers.to(update.dtype)], dim=1), np.ones(len(clients), bool))

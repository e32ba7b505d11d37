"""What a client with time-correlated noise remembers of its last participation: one row of its private store."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.runs.client_store import ClientStore
from sordino.types import IntArray


@dataclass(frozen=True)
class Memory:
    """One row a client: its last bounded update, the noise it carried, and two numbers.

    **Edge cases**: a client that never took part remembers nothing: `known` is False, the vectors are zero, and the
    noise's relative variance counts as 1.
    """

    known: Tensor
    update: Tensor
    noise: Tensor
    variance: Tensor
    """Variance of `noise` over (noise_multiplier · clip_norm)², in double precision."""
    difference: Tensor
    """The client's own bound on how far updates move, where a faithful mechanism adapts it privately."""

    @classmethod
    def recall(cls, store: ClientStore, clients: IntArray, width: int, difference: float) -> Memory:
        """Reads what the clients remember; `difference` is what newcomers start from."""
        rows, known = store.read(clients)
        if not known.any():
            rows = torch.zeros(len(clients), 2 * width + 2)
        there = torch.from_numpy(known)
        return cls(
            there,
            rows[:, :width],
            rows[:, width : 2 * width],
            rows[:, -2].double().where(there, torch.ones((), dtype=torch.float64)),
            rows[:, -1].double().where(there, torch.tensor(difference, dtype=torch.float64)),
        )


def remember(store: ClientStore, clients: IntArray, update: Tensor, noise: Tensor, numbers: Tensor) -> None:
    """Keeps the bounded updates, their noise, and `numbers` (variance and difference, `[clients, 2]`)."""
    store.write(clients, torch.cat([update, noise, numbers.to(update.dtype)], dim=1))

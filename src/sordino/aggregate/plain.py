"""The plain sum of messages: what a server does that receives them in clear, and the stand-in for a secure sum."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.errors import ProtocolError
from sordino.mechanism import Reveal, Turn, Vanished
from sordino.stages import Shielded, Summed


@dataclass(frozen=True)
class PlainSum:
    """Sums the survivors' rows in double precision, and divides by a public constant (`denominator`).

    **Formal guarantees**: none of its own. With `denominator=None` it divides by the survivors' total weight, which is
    private under add/remove: only for mechanisms that claim nothing, or print it so.
    **Edge cases**: more vanished clients than `tolerance` allows abort the round: nothing is released.
    """

    denominator: float | None
    tolerance: float | None = None
    """Share of the cohort that may vanish before the round is aborted (None: any)."""

    def sum(self, messages: Iterable[Shielded], turn: Turn, vanished: Vanished, reveal: Reveal) -> Summed:
        survivors = np.setdiff1d(turn.cohort, vanished.silent, assume_unique=True)
        require(len(survivors), len(turn.cohort), self.tolerance)
        total = torch.zeros_like(turn.weights, dtype=torch.float64)
        clients, weight, side = [np.empty(0, np.int64)], 0.0, dict[str, Tensor]()
        for message in messages:
            total += message.rows.sum(0, dtype=torch.float64)
            if (revealed := reveal(message, survivors, turn)) is not None:
                present = torch.from_numpy(~np.isin(message.clients, vanished.unmask))
                total -= revealed[present].sum(0, dtype=torch.float64)
            clients.append(message.clients)
            weight += float(message.weights.sum())
            side = {name: side.get(name, 0) + column.sum(0) for name, column in message.side.items()}
        weight = self.denominator if self.denominator is not None else max(weight, 1e-12)
        return Summed(total.to(turn.weights.dtype), np.concatenate(clients), weight, side)


def require(survivors: int, cohort: int, tolerance: float | None) -> None:
    """Aborts a round with fewer survivors than its noise shares were drawn for."""
    least = 0 if tolerance is None else max(1, math.ceil(round(cohort * (1 - tolerance), 9)))
    if survivors < least:
        raise ProtocolError(
            f"{survivors} of {cohort} clients survived the round and {least} are needed: "
            "raise aggregate.tolerance, or ask more clients"
        )

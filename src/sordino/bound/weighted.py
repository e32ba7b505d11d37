"""Clipped updates that count in proportion to the client's records, up to a public limit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.bound.l2 import clip_rows
from sordino.stages import Bounded, Sensitivity, Update
from sordino.terms import Knobs, Turn
from sordino.types import IntArray


def weights(sizes: IntArray, record_limit: int | None) -> Tensor:
    """Returns w_i = min(n_i / record_limit, 1); everybody counts 1 when there is no limit."""
    if record_limit is None:
        return torch.ones(len(sizes))
    return torch.from_numpy(sizes / record_limit).clamp(max=1.0).float()


@dataclass(frozen=True)
class WeightedClip:
    """Clips each update to the knob `clip_norm` and multiplies it by w_i = min(n_i / record_limit, 1).

    **Formal guarantees**: w_i ≤ 1 whatever the client holds, so ‖w_i·u_i‖ ≤ clip_norm: a client that comes, goes or is
    zeroed out moves the weighted sum by at most clip_norm, size and all. The limit is a public constant, not a
    statistic of the data.
    **Edge cases**: zero, huge, NaN and infinite rows (the last two become zero); without a limit every weight is 1.
    **Reference**: Baek et al. (2021), Algorithm 2, line 8, and Proposition 2 with W = 1.
    """

    record_limit: int | None = None

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        why = "each client's update is clipped and then multiplied by a weight of at most 1"
        return Sensitivity(knobs.clip_norm, 2, "client", why)

    def bound(self, update: Update, turn: Turn) -> Bounded:
        bound = self.sensitivity(turn.knobs)
        rows, clipped = clip_rows(update.rows, bound.norm)
        counts = weights(update.sizes, self.record_limit)
        return Bounded(update.clients, rows * counts[:, None], counts, clipped, bound)


@dataclass(frozen=True)
class StayNear:
    """Pulls local weights back to within `clip_norm` of where they began, after every local step.

    **Reference**: Baek et al. (2021), Algorithm 1, line 11. It shapes the training; the bound that privacy rests on is
    taken afterwards, on the update as a whole.
    """

    clip_norm: float

    def __call__(self, rows: Tensor, start: Tensor) -> Tensor:
        return start + clip_rows(rows - start, self.clip_norm)[0]

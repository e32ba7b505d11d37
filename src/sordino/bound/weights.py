"""Local *weights* that stay in a ball, as the geometric paper has it: not the update, the model itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.bound.l2 import clip_rows
from sordino.stages import Bounded, Sensitivity, Update
from sordino.terms import Knobs, Turn


@dataclass(frozen=True)
class ClipWeights:
    """Scales local weights down to norm `clip_norm` after every step. Reference: Yuan et al., Algorithm 1, line 9."""

    clip_norm: float

    def __call__(self, rows: Tensor, start: Tensor) -> Tensor:
        return clip_rows(rows, self.clip_norm)[0]


@dataclass(frozen=True)
class WeightBall:
    """Makes sure that w_K = w_0 + u lies in the ball of radius clip_norm, and weights clients by their records.

    **Formal guarantees**: w_0 is public, so what a client has to say is w_K with ‖w_K‖ ≤ clip_norm: sensitivity
    clip_norm under `zero_out`, 2·clip_norm under `replace`, in units in which its weight (public here) is divided
    out.
    **Edge cases**: weights that are not finite become zero, which is an update of −w_0.
    """

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        why = "each client's weights are clipped; in units in which its public weight is divided out"
        return Sensitivity(knobs.clip_norm, 2, "client", why, rowwise=False, single=False)

    def bound(self, update: Update, turn: Turn) -> Bounded:
        weights, clipped = clip_rows(turn.weights + update.rows, turn.knobs.clip_norm)
        sizes = torch.from_numpy(update.sizes).to(weights.dtype)
        return Bounded(
            update.clients, (weights - turn.weights) * sizes[:, None], sizes, clipped, self.sensitivity(turn.knobs)
        )

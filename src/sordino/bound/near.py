"""Updates that stay near the client's own last one (fed_cad)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sordino.bound.l2 import clip_rows
from sordino.client_state import ClientState, NoiseMemory
from sordino.stages import Bounded, Sensitivity, Update
from sordino.terms import Knobs, Turn

_MARGIN = 1e-6
"""Room for float32 rounding, in units of clip_norm, between two bounds that must hold at once."""


@dataclass(frozen=True)
class Near:
    """Clips u_t to clip_norm, then pulls it to within difference · clip_norm of the client's last bounded update.

    `difference` D is a public knob; with `private`, each client's own D, which it adapts from private norms, is used.

    **Formal guarantees**: ‖u_t‖ ≤ clip_norm and, where D < 1, ‖u_t − u_{t−1}‖ ≤ D·clip_norm. The pull keeps the first
    bound: its result lies on the segment between two points of the ball. The second holds against what was really
    sent last, however many rounds ago.
    **Edge cases**: a client that never took part is only clipped; with D = 1 noise is not correlated, nothing needs to
    be near, and nothing is pulled; NaN and infinite rows become zero first.
    **Reference**: Fed-CAD, Algorithm 1, lines 13 and 20 to 21.
    """

    private: bool = False

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        return Sensitivity(knobs.clip_norm, 2, "client", "each client's update is clipped, then pulled to its last one")

    def bound(self, update: Update, turn: Turn) -> Bounded:
        bound, public = self.sensitivity(turn.knobs), turn.knobs.number("difference")
        limit = bound.norm * (1 - _MARGIN if self.private or public < 1 else 1)
        rows, clipped = clip_rows(update.rows, limit)
        memory = NoiseMemory.recall(update.state or ClientState.blank(len(rows)), rows.shape[1], public)
        difference = memory.difference if self.private else torch.full_like(memory.difference, public)
        # clip_rows has one limit for all rows, so rows are measured in units of their own; rounding to float32 moves a
        # row by up to 6e-8 of its norm, which is not small beside a small difference, so the margin is absolute
        units = ((difference - _MARGIN) * limit).clamp(min=1e-30).to(rows.dtype)[:, None]
        steps, far = clip_rows((rows - memory.update) / units, 1.0)
        pulled = memory.known & (difference < 1) & far
        rows = torch.where(pulled[:, None], memory.update + steps * units, rows)
        return Bounded(update.clients, rows, torch.ones(len(rows)), clipped | pulled, bound)

"""Bounds component by component, in units that were released before: a scaled ball or box around a public point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from sordino.bound.l2 import clip_rows
from sordino.stages import Bounded, Sensitivity, Update
from sordino.terms import Knobs, Turn

BoundShape = Literal["ball", "box"]


@dataclass(frozen=True)
class ScaledClip:
    """Returns v = (u − p)/s with ‖v‖₂ ≤ clip_norm: s are the public `scales` of this turn, p its public `predicted`.

    Without `predicted` p is zero, and updates are bounded around w_0.

    A `ball` is clipped as a whole. A `box` is first truncated component by component to |u_m − p_m| ≤ q_m, with
    q_m = clip_norm · a_m / √d from the public `amplitude` a of root mean square 1: its corner has norm clip_norm.

    **Formal guarantees**: what is returned has L2 norm ≤ clip_norm: sensitivity clip_norm under `zero_out` and
    `add_remove`, 2·clip_norm under `replace`. The box needs no other scales than the ball: Σ q_m²/s_m² = clip_norm² for
    s = a (equal split) and for s_m² = a_m·mean(a) (least energy), so the box lies inside the ball, and both are hidden
    by the same noise. Scales and p are knobs, made from what was released: given the past they are constants.
    **Edge cases**: a row that holds NaN, or overflows once scaled, becomes zero; in a box ±∞ is truncated too.
    **Reference**: Xue et al., Eq. (2), with thresholds that are public.
    """

    shape: BoundShape = "ball"

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        why = "each client's update is clipped in units of scales that were released before"
        return Sensitivity(knobs.clip_norm, 2, "client", why)

    def bound(self, update: Update, turn: Turn) -> Bounded:
        bound, predicted = self.sensitivity(turn.knobs), turn.knobs.more.get("predicted")
        rows = beyond = update.rows if predicted is None else update.rows - predicted.to(update.rows.dtype)
        clip_norm = bound.norm
        if self.shape == "box":
            corner = (turn.knobs["amplitude"] * (clip_norm / math.sqrt(rows.shape[1]))).to(rows.dtype)
            rows = rows.clamp(-corner, corner)
        scaled, clipped = clip_rows(rows / turn.knobs["scales"].to(rows.dtype), clip_norm)
        clipped = clipped if self.shape == "ball" else clipped | (rows != beyond).any(dim=1)
        return Bounded(update.clients, scaled, torch.ones(len(rows)), clipped, bound)

"""L2 and L1 clipping of whole rows, and the check for rows that were clipped example by example."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.errors import SordinoError
from sordino.stages import UNCLIPPED, Bounded, Sensitivity, Update
from sordino.terms import Knobs, Turn

_HUGE = 1e30


def clip_rows(rows: Tensor, clip_norm: float, order: float = 2) -> tuple[Tensor, Tensor]:
    """Scales every row down to at most `clip_norm`, and says which rows were changed.

    **Formal guarantees**: every returned row has norm ≤ `clip_norm`; the scale leaves one part in 10⁶ for the rounding
    of single precision. A row that holds NaN or ∞, or whose norm exceeds 10³⁰ or 10³⁷ clip norms (a scale that single
    precision cannot hold), becomes zero.
    """
    rows = rows if rows.dtype == torch.float64 else rows.float()
    norms = torch.linalg.vector_norm(rows, order, dim=1, dtype=torch.float64)
    sane = norms <= min(_HUGE, 1e37 * clip_norm)  # false for NaN too
    scale = torch.where(norms > clip_norm, clip_norm * (1 - 1e-6) / norms, torch.ones_like(norms))
    clipped = (rows * scale.unsqueeze(1).to(rows.dtype)).where(sane.unsqueeze(1), torch.zeros((), dtype=rows.dtype))
    return clipped, (norms > clip_norm) | ~sane


@dataclass(frozen=True)
class Clip:
    """Clips each client's update to the knob `clip_norm`, in L2 (or L1 for Laplace noise).

    **Formal guarantees**: one client's contribution has norm ≤ clip_norm: sensitivity clip_norm under `zero_out` and
    `add_remove`, 2·clip_norm under `replace`.
    **Edge cases**: zero, huge, NaN and infinite rows (the last two become zero).
    """

    order: int = 2

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        return Sensitivity(knobs.clip_norm, self.order, "client", "each client's update is clipped as a whole")

    def bound(self, update: Update, turn: Turn) -> Bounded:
        bound = self.sensitivity(turn.knobs)
        rows, clipped = clip_rows(update.rows, bound.norm, self.order)
        return Bounded(update.clients, rows, torch.ones(len(rows)), clipped, bound)


@dataclass(frozen=True)
class Presummed:
    """Accepts the sum of updates that the trainer clipped one by one without keeping them, and nothing else.

    **Formal guarantees**: those of `Clip`, for mechanisms that only ever use the sum; the trainer vouches for it by
    `Update.client_clip`. Beside it stands ½ for each client that was not clipped and −½ for each other, and nothing for
    a client without records: it adds nothing to a sum, and to a count neither.
    """

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        why = "each client's update is clipped as a whole before it is added to the sum"
        return Sensitivity(knobs.clip_norm, 2, "client", why, rowwise=False, single=False)

    def bound(self, update: Update, turn: Turn) -> Bounded:
        bound = self.sensitivity(turn.knobs)
        limit = bound.norm
        if update.client_clip is None or update.norms is None or update.client_clip > limit * (1 + 1e-9):
            raise SordinoError("a presummed update needs clients that were clipped one by one: use a summing trainer")
        clipped = ~(update.norms <= limit)  # true for NaN too
        halves = (0.5 - clipped.float()) * torch.from_numpy(update.sizes > 0)
        side = {UNCLIPPED: halves[:, None]}
        return Bounded(update.clients, update.rows, torch.ones(len(update.clients)), clipped, bound, side=side)


@dataclass(frozen=True)
class PerExample:
    """Accepts rows that the trainer summed from clipped per-example gradients (record unit), and nothing else.

    **Formal guarantees**: one record changes a row by at most clip_norm (add/remove), which the trainer vouches for by
    `Update.example_clip`.
    """

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        why = "each record's gradient is clipped before it is added to its client's row"
        return Sensitivity(knobs.clip_norm, 2, "record", why, rowwise=False)

    def bound(self, update: Update, turn: Turn) -> Bounded:
        bound = self.sensitivity(turn.knobs)
        if update.example_clip is None or update.example_clip > bound.norm * (1 + 1e-9):
            raise SordinoError("the record unit needs rows of per-example clipped gradients: use a per-example trainer")
        if not torch.isfinite(update.rows).all():
            raise SordinoError("a per-example trainer returned a row that is not finite: it must drop such gradients")
        clipped, weights = torch.zeros(len(update.rows)).bool(), torch.ones(len(update.rows))
        return Bounded(update.clients, update.rows, weights, clipped, bound, side=update.side, clipped_within=True)


@dataclass(frozen=True)
class Unlimited:
    """Bounds nothing, and weights by data size (FedAvg). A mechanism with it must charge `Unbounded`."""

    def sensitivity(self, knobs: Knobs) -> None:
        return None

    def bound(self, update: Update, turn: Turn) -> Bounded:
        weights = torch.from_numpy(update.sizes).to(update.rows.dtype)
        clipped = torch.zeros(len(weights)).bool()
        return Bounded(update.clients, update.rows * weights[:, None], weights, clipped, sensitivity=None)

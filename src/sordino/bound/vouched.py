"""Rows that are private before they get here: local DP-SGD noised every step, and says so."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sordino.errors import SordinoError
from sordino.stages import Bounded, Sensitivity, Update
from sordino.terms import Knobs, Turn


@dataclass(frozen=True)
class NoisedSteps:
    """Accepts updates whose every local step was clipped example by example and then noised, and nothing else.

    **Formal guarantees**: one record changes the sum behind a step by at most clip_norm, against noise of at least
    noise_multiplier · clip_norm; the trainer vouches for both (`Update.example_clip`, `Update.noise_multiplier`). A
    row that is not finite becomes zero, which is post-processing.
    """

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        why = "in every local step each record's gradient is clipped before noise is added to their sum"
        return Sensitivity(knobs.clip_norm, 2, "record", why, rowwise=False)

    def bound(self, update: Update, turn: Turn) -> Bounded:
        clip, noise = update.example_clip, update.noise_multiplier
        if clip is None or noise is None or clip > turn.knobs.clip_norm * (1 + 1e-9):
            raise SordinoError("local DP-SGD needs clipped and noised steps: use a trainer that makes private steps")
        if noise < turn.knobs.noise_multiplier * (1 - 1e-9):
            raise SordinoError("a local step carried less noise than is charged: the trainer must use the turn's noise")
        return _counted_alike(update, self.sensitivity(turn.knobs))


@dataclass(frozen=True)
class AsTrained:
    """Bounds nothing: everybody counts 1. A mechanism with it must charge `Unbounded`."""

    def sensitivity(self, knobs: Knobs) -> None:
        return None

    def bound(self, update: Update, turn: Turn) -> Bounded:
        return _counted_alike(update, None)


def _counted_alike(update: Update, sensitivity: Sensitivity | None) -> Bounded:
    finite = torch.isfinite(update.rows).all(1)
    rows = update.rows.where(finite[:, None], torch.zeros((), dtype=update.rows.dtype))
    return Bounded(
        update.clients,
        rows,
        torch.ones(len(rows)),
        ~finite,
        sensitivity,
        side=update.side,
        noise_multiplier=update.noise_multiplier,
        clipped_within=True,
    )

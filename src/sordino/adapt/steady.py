"""Knobs that stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sordino.mechanism import Knobs, Turn, scalar
from sordino.stages import Released


@dataclass(frozen=True)
class Steady:
    """Keeps clip norm and noise multiplier for the whole run."""

    clip_norm: float
    noise_multiplier: float

    def start(self) -> Knobs:
        return {"clip_norm": scalar(self.clip_norm), "noise_multiplier": scalar(self.noise_multiplier)}

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        return turn.knobs

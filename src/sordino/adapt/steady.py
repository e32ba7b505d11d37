"""Knobs that stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sordino.mechanism import Adapter
from sordino.stages import Released
from sordino.terms import Knobs, Turn


@dataclass(frozen=True)
class Steady(Adapter):
    """Keeps clip norm and noise multiplier for the whole run."""

    clip_norm: float
    noise_multiplier: float

    def start(self) -> Knobs:
        return Knobs(self.clip_norm, self.noise_multiplier)

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        return turn.knobs

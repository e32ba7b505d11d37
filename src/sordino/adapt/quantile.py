"""The clip norm follows a private quantile of the update norms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sordino.mechanism import Adapter
from sordino.stages import UNCLIPPED, Released
from sordino.terms import Knobs, Turn


@dataclass(frozen=True)
class QuantileClip(Adapter):
    """Geometric update C ← C·exp(−rate·(b̃ − quantile)), b̃ the released share of clients that were not clipped.

    **Formal guarantees**: post-processing of a released value.
    **Reference**: Andrew et al. (2021), Algorithm 1.
    """

    clip_norm: float
    noise_multiplier: float
    quantile: float = 0.5
    rate: float = 0.2

    def start(self) -> Knobs:
        return Knobs(self.clip_norm, self.noise_multiplier)

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        share = float(released.side[UNCLIPPED][0])
        clip_norm = turn.knobs.clip_norm * math.exp(-self.rate * (share - self.quantile))
        return turn.knobs.but(clip_norm=clip_norm)

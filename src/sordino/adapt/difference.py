"""How far a client's update may move from its last one: a public number, fixed or learned from what was released."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sordino.mechanism import Adapter
from sordino.stages import Released
from sordino.terms import Knobs, Turn, scalar


@dataclass(frozen=True)
class ReleasedDifference(Adapter):
    """D follows the distance between a client's last two *messages*, with the noise's known share taken out.

    For clients that took part before, ‖y_t − y_{t−1}‖² exceeds ‖u_t − u_{t−1}‖² by the noise's energy, which is public,
    so what is left estimates the latter without bias. The mean over the cohort is smoothed with weight `obsolete` (γ),
    and D = headroom · √(smoothed) / clip_norm, between `least` and 1. With γ = 0 D is constant.

    **Formal guarantees**: post-processing of released messages: free.
    **Edge cases**: estimates may be negative and are smoothed as they are (cutting them off first would bias them); a
    cohort of newcomers changes nothing. In d dimensions one client's estimate has a standard error of about
    √(2d)·(σ·clip_norm)², so with strong noise D is mostly guesswork, if private guesswork.
    **Reference**: Fed-CAD, §V-B, which uses the private distances themselves.
    """

    clip_norm: float
    noise_multiplier: float
    difference: float
    obsolete: float = 0.0
    headroom: float = 1.25
    """Updates are pulled to within D, so what is measured never exceeds it: without headroom D could only shrink."""
    least: float = 0.05

    def start(self) -> Knobs:
        return Knobs(
            self.clip_norm,
            self.noise_multiplier,
            {
                "difference": scalar(self.difference),
                "gap": scalar((self.difference / self.headroom) ** 2),
            },
        )

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        total, count = released.side["gap"].tolist()
        if self.obsolete == 0 or count == 0 or not math.isfinite(total):
            return turn.knobs
        seen = total / count / turn.knobs.clip_norm**2
        gap = (1 - self.obsolete) * turn.knobs.number("gap") + self.obsolete * seen
        difference = min(1.0, max(self.least, self.headroom * math.sqrt(max(0.0, gap))))
        return turn.knobs.but(gap=scalar(gap), difference=scalar(difference))

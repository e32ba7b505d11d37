"""Less noise when accuracy stops rising."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sordino.mechanism import Adapter
from sordino.stages import Released
from sordino.terms import Knobs, Turn, scalar


@dataclass(frozen=True)
class Plateau(Adapter):
    """Every `every` rounds: if the score S rose by at most `threshold` since the last look, σ ← factor · σ; S_0 = 0.

    The score is the side release named `side` (a noisy count that was charged), or, without one, the accuracy on public
    data of the model that this round began with.

    **Formal guarantees**: the next noise multiplier is a function of released or public values: post-processing. Since
    it then sets the price of later releases, a privacy filter has to do the sums (`Mechanism.adaptive`).
    **Edge cases**: no score, no look: nothing changes until there is one.
    **Reference**: A-DPFL, Eq. (15) and Algorithm 4 (whose last line means S_0 = S_t).
    """

    clip_norm: float
    noise_multiplier: float
    factor: float = 0.7
    threshold: float = 0.005
    every: int = 1
    side: str | None = None

    def start(self) -> Knobs:
        return Knobs(
            self.clip_norm,
            self.noise_multiplier,
            {
                "score": scalar(0.0),
            },
        )

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        score = public.get("accuracy") if self.side is None else _column(released, self.side)
        if turn.round_ % self.every or score is None:
            return turn.knobs
        flat = score - turn.knobs.number("score") <= self.threshold
        noise = turn.knobs.noise_multiplier * (self.factor if flat else 1.0)
        return turn.knobs.but(noise_multiplier=noise, score=scalar(score))


def _column(released: Released, name: str) -> float | None:
    return float(released.side[name][0]) if name in released.side else None

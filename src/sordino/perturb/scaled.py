"""Noise whose size differs from component to component: any perturber, in scaled units."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sordino.mechanism import Perturber, SideBounds
from sordino.stages import Bounded, Kept, Prices, Released, Revealed, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Survivors, Turn


@dataclass(frozen=True)
class Scaled(Perturber):
    """Lets `inner` hide contributions in units of the public `scales` s, and multiplies the released mean by s.

    Where the turn has a public `predicted` step that contributions were bounded around, it is added to the mean again.

    **Formal guarantees**: those of `inner`, at its price, whatever its trust: contributions are bounded in the same
    units (`bound/scaled.py`), s and the predicted step are fixed by earlier releases, and multiplying by the one and
    adding the other is post-processing. In model units the noise on component m has standard deviation
    s_m · noise_multiplier · norm of the bound.
    **Edge cases**: messages travel in scaled units; only the mean is scaled back.
    """

    inner: Perturber

    @property
    def arithmetic(self) -> str:
        return self.inner.arithmetic

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return self.inner.refuses(bound)

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return self.inner.price(knobs, round_)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        return self.inner.shield(bounded, turn)

    def beside(self, knobs: Knobs, width: int, records: int) -> SideBounds:
        return self.inner.beside(knobs, width, records)

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        return self.inner.reveal(kept, survivors, turn)

    def release(self, summed: Summed, turn: Turn) -> Released:
        released, scales = self.inner.release(summed, turn), turn.knobs["scales"]
        size = float(scales.double().square().mean().sqrt())
        mean = released.mean * scales.to(released.mean.dtype)
        if "predicted" in turn.knobs:
            mean = mean + turn.knobs["predicted"].to(mean.dtype)
        return replace(released, mean=mean, stddev=released.stddev * size)

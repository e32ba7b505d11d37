"""Noise whose size differs from component to component: any perturber, in scaled units."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from sordino.mechanism import Perturber, Prices, Turn
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import IntArray


@dataclass(frozen=True)
class Scaled:
    """Lets `inner` hide contributions in units of the public `scales` s, and multiplies the released mean by s.

    **Formal guarantees**: those of `inner`, at its price, whatever its trust: contributions are bounded in the same
    units (`bound/scaled.py`), s is fixed by earlier releases, and multiplying by it is post-processing. In model units
    the noise on component m has standard deviation s_m · noise_multiplier · clip_norm.
    **Edge cases**: messages travel in scaled units; only the mean is scaled back.
    """

    inner: Perturber

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        return self.inner.shield(bounded, turn)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return self.inner.reveal(message, survivors, turn)

    def release(self, summed: Summed, turn: Turn) -> Released:
        released, scales = self.inner.release(summed, turn), turn.knobs["scales"]
        size = float(scales.double().square().mean().sqrt())
        return replace(released, mean=released.mean * scales.to(released.mean.dtype), stddev=released.stddev * size)

    def price(self, turn: Turn) -> Prices:
        return self.inner.price(turn)

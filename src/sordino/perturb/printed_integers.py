"""Printed noise shares in the integers of a secure sum: Algorithm 3 of Baek et al. from end to end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sordino.perturb.printed import PrintedShares
from sordino.stages import Bounded, Kept, Released, Revealed, Sent, Summed
from sordino.terms import Survivors, Terms, Turn

FRACTION_BITS = 24
"""Bits behind the point of what is sent."""
_FARTHEST = 40.0
"""No entry of normal noise lies so many standard deviations away: the chance is below 10⁻³⁰⁰."""


@dataclass(frozen=True, eq=False)
class PrintedIntegerShares(PrintedShares):
    """What `PrintedShares` sends and reveals, as integers with `FRACTION_BITS` bits behind the point.

    **Formal guarantees**: those of `PrintedShares`, up to rounding, which the paper does not speak of and which nothing
    here covers: noise and messages are floats before they are rounded.
    **Edge cases**: integers are wide enough that a sum wraps with a probability below 10⁻³⁰⁰ an entry.
    **Reference**: Baek et al. (2021), Algorithm 3, lines 26 to 38.
    """

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        sent = super().shield(bounded, turn)
        return replace(sent, message=replace(sent.message, rows=_integers(sent.message.rows)))

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        revealed = super().reveal(kept, survivors, turn)
        return None if revealed is None else replace(revealed, rows=_integers(revealed.rows))

    def release(self, summed: Summed, turn: Turn) -> Released:
        total = summed.total.double() / 2**FRACTION_BITS
        weight = max(self._weight(summed.survivors), 1e-12)
        return super().release(replace(summed, total=total, weight=weight), turn)

    def modulus_bits(self, terms: Terms) -> int:
        """Returns the bits with which the sum of a cohort does not wrap."""
        noise = 2 * terms.knobs.noise_multiplier * terms.knobs.clip_norm * math.sqrt(1 / min(self.least, 1.0))
        most = max(1, len(terms.cohort)) * (terms.knobs.clip_norm + 2 * _FARTHEST * noise)
        return FRACTION_BITS + math.ceil(math.log2(most + 1)) + 2


def _integers(rows: Tensor) -> Tensor:
    return torch.from_numpy(np.rint(rows.double().numpy() * 2**FRACTION_BITS).astype(np.int64))

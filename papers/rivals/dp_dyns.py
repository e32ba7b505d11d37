"""DP-dyns: local DP-SGD whose sensitivity is the longest clipped gradient of each batch.

Wei, Liu (2021), "Gradient Leakage Attack Resilient Deep Learning", with the dynamic sensitivity alone (`dyn S`): each
example's gradient is clipped to C, S = max ‖g_j‖ over the batch, and the sum gets N(0, (σ·S)²), σ the same in every
step. Adapted to federated learning as Xue et al. say: every client does so in its local steps.

**Certified**: nothing. S is measured on the batch that it should hide: one record with a long gradient raises the noise
that everybody sees, and a batch of short ones gets hardly any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field
from torch import Tensor

from papers.rivals.steps import clipped, constant_noise, largest, measured
from sordino.adapt.steady import Steady
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import MechanismSpec, Options
from sordino.terms import Knobs

MEASURED = "noise is scaled by the longest gradient of the batch that it should hide"


class DpDynS(Options):
    """Dynamic sensitivity; `clip_norm` is C."""

    name: Literal["dp_dyns"] = "dp_dyns"
    clip_norm: float = Field(4.0, gt=0, description="bound on each example's gradient")


@dataclass(frozen=True)
class LongestOfBatch:
    """Clips to C, and scales noise by the longest gradient that is left."""

    def noisy(self, examples: Tensor, knobs: Knobs, noise: Tensor) -> Tensor:
        kept, norms = clipped(examples, knobs.clip_norm)
        return kept.sum(0) + noise * (knobs.noise_multiplier * largest(norms))


def compose(options: DpDynS, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    steady = Steady(options.clip_norm, constant_noise(options, facts))
    return measured(options, facts, LongestOfBatch(), MEASURED, steady)


SPEC = MechanismSpec(
    DpDynS,
    compose,
    "record",
    "local",
    "local DP-SGD, noise by the batch's longest gradient",
    "Wei, Liu (2021), Gradient Leakage Attack Resilient Deep Learning",
)

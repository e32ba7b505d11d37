"""PrivateDL: local DP-SGD without clipping, its sensitivity estimated by the PauTa (three sigma) criterion.

Han, Li, Ouyang, Liu, Wang, Wu, Chen (2021), "Accurate Differentially Private Deep Learning on the Edge", as Xue et al.
cite it ([25]): no gradient is truncated; in each step the sensitivity is what the norms of the sampled gradients do not
exceed by the three-sigma rule, mean + 3 deviations, and the sum gets Gaussian noise of σ times that. (The adaptive
Laplace mechanism with layer-wise relevance is another system, that of Phan et al. (2017).) Its second part, which data
are critical for global training, is no noise mechanism and is left out, as in the comparison.

**Certified**: nothing. No gradient is bounded, and the noise's scale is a statistic of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from papers.rivals.steps import constant_noise, measured
from sordino.adapt.steady import Steady
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import MechanismSpec, Options
from sordino.terms import Knobs

UNCLIPPED = "no gradient is bounded, and noise is scaled by the mean and spread of the batch's own gradients"


class PrivateDl(Options):
    """Sensitivity by three deviations; `clip_norm` is not used."""

    name: Literal["private_dl"] = "private_dl"


@dataclass(frozen=True)
class ThreeDeviations:
    """Clips nothing, and scales noise by the mean of the gradients' norms plus three standard deviations."""

    def noisy(self, examples: Tensor, knobs: Knobs, noise: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(examples, dim=1)
        likely = float(norms.mean() + 3 * norms.std(correction=0)) if len(norms) else 0.0
        return examples.sum(0) + noise * (knobs.noise_multiplier * likely)


def compose(options: PrivateDl, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    steady = Steady(options.clip_norm, constant_noise(options, facts))
    return measured(options, facts, ThreeDeviations(), UNCLIPPED, steady)


SPEC = MechanismSpec(
    PrivateDl,
    compose,
    "record",
    "local",
    "local DP-SGD without clipping, noise by the three-sigma rule",
    "Han et al. (2021), Accurate Differentially Private Deep Learning on the Edge",
)

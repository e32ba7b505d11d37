"""Fed-αCDP: each layer's noise follows the longest gradient of the batch in that layer, and σ falls over the rounds.

Wei, Liu, Zhou, Chow, Wu (2023), "Securing Distributed SGD against Gradient Leakage Threats", as Xue et al. describe it
([29]): the gradient of each example is truncated to C layer by layer, the sensitivity of a layer is the largest norm
that a search through the batch finds in it, and the noise level varies with time. By how much σ falls is stated neither
there nor for Fig. 4(d): linearly, to `last` of the first.

**Certified**: nothing, as for DP-dyns. Besides, layers clipped to C one by one make a gradient of up to √layers·C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from papers.rivals.dp_dyns import MEASURED
from papers.rivals.steps import clipped, largest, measured
from sordino.account.accountants.calibrate import noise_multiplier_for
from sordino.events import DpEvent
from sordino.mechanism import Adapter, Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.local_dp_sgd import batches
from sordino.mechanisms.spec import MechanismSpec, Options
from sordino.perturb.steps import step_event
from sordino.stages import Released
from sordino.terms import Knobs, Turn


class FedAlphaCdp(Options):
    """Sensitivity by layer, decaying noise; `clip_norm` is C, `noise_multiplier` that of the first round."""

    name: Literal["fed_alpha_cdp"] = "fed_alpha_cdp"
    clip_norm: float = Field(4.0, gt=0, description="bound on each example's gradient in each layer")
    last: float = Field(0.5, gt=0, le=1, description="noise multiplier of the last round over that of the first")


@dataclass(frozen=True)
class LongestOfLayer:
    """Clips to C layer by layer, and scales each layer's noise by the longest gradient that is left in it."""

    sizes: tuple[int, ...]

    def noisy(self, examples: Tensor, knobs: Knobs, noise: Tensor) -> Tensor:
        parts = []
        for layer, draws in zip(examples.split(self.sizes, 1), noise.split(self.sizes), strict=True):
            kept, norms = clipped(layer, knobs.clip_norm)
            parts.append(kept.sum(0) + draws * (knobs.noise_multiplier * largest(norms)))
        return torch.cat(parts)


@dataclass(frozen=True)
class Linear(Adapter):
    """Noise that falls by the same amount from round to round."""

    clip_norm: float
    first: float
    last: float
    """Noise of the last round over that of the first."""
    rounds: int

    def start(self) -> Knobs:
        return self.planned(1)

    def planned(self, round_: int) -> Knobs:
        return Knobs(self.clip_norm, self.first * falling(round_, self.rounds, self.last))

    def adapt(self, turn: Turn, released: Released, public: object) -> Knobs:
        return self.planned(turn.round_ + 1)


def falling(round_: int, rounds: int, last: float) -> float:
    """Returns a round's noise over the first's."""
    return 1 - (1 - last) * min(1.0, (round_ - 1) / max(1, rounds - 1))


def compose(options: FedAlphaCdp, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    first = options.noise_multiplier or _calibrated(options, facts)
    adapter = Linear(options.clip_norm, first, options.last, facts.rounds)
    return measured(options, facts, LongestOfLayer(facts.layout.sizes), MEASURED, adapter)


def _calibrated(options: FedAlphaCdp, facts: PublicFacts) -> float:
    """Returns the first noise multiplier for which the budget is claimed after all rounds."""
    rate, steps = batches(None, facts)
    shape = sorted(falling(m, facts.rounds, options.last) for m in range(1, facts.rounds + 1))[: facts.participations]

    def history(first: float) -> dict[DpEvent, int]:
        return {step_event(first * part, rate, steps): shape.count(part) for part in set(shape)}

    epsilon = facts.target.limit("mechanism.noise_multiplier")
    return noise_multiplier_for(epsilon, facts.target.delta, history)


SPEC = MechanismSpec(
    FedAlphaCdp,
    compose,
    "record",
    "local",
    "local DP-SGD, noise by each layer's longest gradient, falling over the rounds",
    "Wei et al. (2023), Securing Distributed SGD against Gradient Leakage Threats",
)

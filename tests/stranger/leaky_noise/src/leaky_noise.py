"""leaky: local Gaussian noise with a planted bug, half of what is stated and charged. An audit has to find it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import sordino
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip
from sordino.perturb.gaussian import LocalGaussian
from sordino.stages import Bounded, Sent
from sordino.terms import Turn
from sordino.train.local import LocalSteps


@dataclass(frozen=True)
class HalfGaussian(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        sent = super().shield(bounded, turn)
        halfway = (sent.message.rows + bounded.rows) / 2
        return replace(sent, message=replace(sent.message, rows=halfway))


class Leaky(sordino.Options):
    """Local Gaussian noise, half of it missing."""

    name: Literal["leaky"] = "leaky"


def compose(options: Leaky, facts: sordino.PublicFacts) -> sordino.Mechanism:
    noise = HalfGaussian()
    return sordino.Mechanism(
        name=options.name, mode=options.mode, unit="client", trust="local", selector=facts.selector, local=LocalSteps(),
        bounder=Clip(), perturber=noise, aggregator=PlainSum(facts.expected),
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise)),
    )  # fmt: skip


SPEC = sordino.MechanismSpec(Leaky, compose, "client", "local", "half of the noise that is charged")

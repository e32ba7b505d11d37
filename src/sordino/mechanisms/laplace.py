"""Laplace: every client clips its update in L1 and adds Laplace noise (the comparison of the geometric paper, §V).

Unit client, trust local, adjacency zero_out (or replace). Pure ε per participation: clip_norm / scale.
"""

from __future__ import annotations

from typing import Literal

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import MechanismSpec, MessageAdjacency, Options
from sordino.perturb.laplace import LocalLaplace
from sordino.train.local import LocalSteps


class Laplace(Options):
    """Local Laplace noise; `clip_norm` is an L1 norm and `noise_multiplier` the Laplace scale over it."""

    name: Literal["laplace"] = "laplace"
    adjacency: MessageAdjacency = "zero_out"


def compose(options: Laplace, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    noise = LocalLaplace(adjacency=options.adjacency)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=Clip(order=1),
        perturber=noise,
        aggregator=PlainSum(facts.expected),
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise)),
    )


SPEC = MechanismSpec(
    Laplace,
    compose,
    "client",
    "local",
    "each client adds Laplace noise to its L1-clipped update",
)

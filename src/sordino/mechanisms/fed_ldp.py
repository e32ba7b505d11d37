"""Fed-LDP: every client clips its update and adds Gaussian noise before it sends it.

Unit client, trust local, adjacency zero_out (or replace, on request). Constant noise: the θ = 1 case of `geometric` and
the D = 1 case of `fed_cad`.

**Formal guarantees**: a message is one Gaussian of `noise_multiplier` (half of it under `replace`); ε is the plain
composition over the client's own participations, for server and outsider alike. Selection hides nothing here: noise
comes with every message, so the noise of the sum tells how many took part (`perturb/price.py`).
"""

from __future__ import annotations

from typing import Literal

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import AuditCase, MechanismSpec, MessageAdjacency, Options
from sordino.perturb.gaussian import LocalGaussian
from sordino.train.local import LocalSteps


class FedLdp(Options):
    """Local Gaussian noise, the same in every round."""

    name: Literal["fed_ldp"] = "fed_ldp"
    adjacency: MessageAdjacency = "zero_out"


def compose(options: FedLdp, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    noise = LocalGaussian(adjacency=options.adjacency, least=facts.least_survivors)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=Clip(),
        perturber=noise,
        aggregator=PlainSum(facts.expected, least=facts.least_survivors),
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise)),
    )


SPEC = MechanismSpec(
    FedLdp,
    compose,
    "client",
    "local",
    "each client adds constant Gaussian noise to its update",
    prepares=True,
    audit=(
        AuditCase(),
        AuditCase(
            settings=(
                "mechanism.adjacency=replace",
                "run.rounds=4",
                "budget.epsilon=4",
            )
        ),
    ),
)

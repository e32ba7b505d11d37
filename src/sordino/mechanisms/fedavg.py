"""FedAvg: no privacy, the ceiling that everything else is compared with.

Unit client, trust central (anybody who looks sees everything). The certificate says that nothing is protected.
Reference: McMahan et al. (2017), "Communication-Efficient Learning of Deep Networks from Decentralized Data".
"""

from __future__ import annotations

from typing import Literal

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Unlimited
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import MechanismSpec, Options
from sordino.perturb.no_noise import NoNoise
from sordino.train.local import LocalSteps


class FedAvg(Options):
    """Average of local updates, weighted by data size."""

    name: Literal["fedavg"] = "fedavg"

    def idle(self) -> dict[str, str]:
        why = "under fedavg, which neither clips nor adds noise: set mechanism.name = 'dp_fedavg'"
        return {"clip_norm": why, "noise_multiplier": why}


def compose(options: FedAvg, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="central",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=Unlimited(),
        perturber=NoNoise(),
        aggregator=PlainSum(denominator=None),
        adapter=Steady(options.clip_norm, 0.0),
    )


SPEC = MechanismSpec(
    FedAvg,
    compose,
    "client",
    "central",
    "average of local updates, no privacy",
)

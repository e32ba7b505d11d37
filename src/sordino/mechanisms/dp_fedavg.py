"""DP-FedAvg: a trusted server adds Gaussian noise to the sum of clipped updates.

Unit client, trust central, adjacency add_remove for the outsider; the server sees every update and is trusted.

**Formal guarantees**: one client moves the sum by at most clip_norm; the denominator is the expected cohort, a public
constant; Poisson selection amplifies against the outsider.
Reference: Geyer et al. (2017); McMahan et al. (2018), "Learning Differentially Private Recurrent Language Models".
"""

from __future__ import annotations

from typing import Literal

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Presummed
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import AuditCase, MechanismSpec, Options
from sordino.perturb.gaussian import CentralGaussian
from sordino.train.local import SummedSteps


class DpFedAvg(Options):
    """Central Gaussian noise, fixed clip norm."""

    name: Literal["dp_fedavg"] = "dp_fedavg"


def compose(options: DpFedAvg, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    noise = CentralGaussian()
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="central",
        selector=facts.selector,
        local=SummedSteps(),
        bounder=Presummed(),
        perturber=noise,
        aggregator=PlainSum(facts.expected),
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise)),
    )


SPEC = MechanismSpec(
    DpFedAvg,
    compose,
    "client",
    "central",
    "a trusted server adds Gaussian noise to the clipped sum",
    prepares=True,
    audit=(
        AuditCase(),
        AuditCase(
            settings=(
                "select.kind=poisson",
                "select.rate=0.2",
            )
        ),
    ),
)

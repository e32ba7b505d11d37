"""DP-FedAvg with adaptive clipping: the clip norm follows a private quantile of the update norms.

Unit client, trust central, adjacency add_remove for the outsider. The quantile's bit is noised, and its cost is inside
the one Gaussian that is charged (see `perturb/quantile.py`).
Reference: Andrew, Thakkar, McMahan, Ramaswamy (2021), "Differentially Private Learning with Adaptive Clipping".
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sordino.adapt.quantile import QuantileClip
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Presummed
from sordino.errors import RecipeError
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import AuditCase, MechanismSpec, Options
from sordino.perturb.gaussian import CentralGaussian
from sordino.perturb.quantile import QuantileGaussian
from sordino.train.local import SummedSteps


class DpFedAvgAdaptive(Options):
    """Central Gaussian noise; `clip_norm` is where the clip norm starts."""

    name: Literal["dp_fedavg_adaptive"] = "dp_fedavg_adaptive"
    quantile: float = Field(0.5, gt=0, lt=1, description="share of clients that should not be clipped")
    quantile_rate: float = Field(0.2, gt=0, description="how fast the clip norm moves, in log space")
    bit_stddev: float | None = Field(
        None, gt=0, description="noise on the count of unclipped clients (default: cohort / 20, or as little as fits)"
    )


def compose(options: DpFedAvgAdaptive, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    multiplier = facts.calibrate(options, CentralGaussian())  # the quantile's cost is inside the same price
    bit_stddev = options.bit_stddev or max(facts.expected / 20, multiplier)
    if 2 * bit_stddev <= multiplier:
        raise RecipeError(
            f"mechanism.bit_stddev is {bit_stddev:g}, but half the noise multiplier ({multiplier / 2:g}) is already "
            "spent on it alone: raise mechanism.bit_stddev"
        )
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="central",
        selector=facts.selector,
        local=SummedSteps(),
        bounder=Presummed(),
        perturber=QuantileGaussian(bit_stddev),
        aggregator=PlainSum(facts.expected),
        adapter=QuantileClip(options.clip_norm, multiplier, options.quantile, options.quantile_rate),
    )


SPEC = MechanismSpec(
    DpFedAvgAdaptive,
    compose,
    "client",
    "central",
    "dp_fedavg whose clip norm follows a private quantile",
    audit=(AuditCase(trials=20_000),),
)

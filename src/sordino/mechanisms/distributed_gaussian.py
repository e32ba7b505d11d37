"""distributed_gaussian: clients share out constant Gaussian noise, and nobody corrects it when some of them vanish.

The plain rival of `dropout_robust` (client unit) and of `dp_sgd` and `geometric` (record unit). Trust distributed.

**Formal guarantees**: a unit moves the sum by at most clip_norm (an update clipped as a whole, or each example's
gradient). Shares are drawn for the fewest survivors that a round accepts and stay as they are, so that the noise around
the sum is at least that of the multiplier whoever survived; what is more is not credited. Server: zero_out (client) or
add_remove (record), without amplification. Where nobody may vanish (`aggregate.tolerance = 0`) this is the plain
distributed Gaussian mechanism.
**Reference**: Kairouz et al. (2021), "The Distributed Discrete Gaussian Mechanism"; Agarwal et al. (2021), "The Skellam
Mechanism".
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sordino.adapt.steady import Steady
from sordino.bound.l2 import Clip, PerExample
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.noise import noise_for
from sordino.mechanisms.spec import AuditCase, MechanismSpec, Options, Variant
from sordino.train.local import ExampleGradients, LocalSteps
from sordino.types import Unit


class DistributedGaussian(Options):
    """Noise shares for the worst case, left as they are."""

    name: Literal["distributed_gaussian"] = "distributed_gaussian"
    unit: Unit = Field("client", description="whose presence is hidden")


def compose(options: DistributedGaussian, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    record = options.unit == "record"
    weight = facts.expected * (facts.mean_records if record else 1.0)
    noise = noise_for("distributed", options.unit, options.clip_norm, facts, weight, thin=False)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit=options.unit,
        trust="distributed",
        selector=facts.selector,
        local=ExampleGradients() if record else LocalSteps(),
        bounder=PerExample() if record else Clip(),
        perturber=noise.perturber,
        aggregator=noise.aggregator,
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise.perturber)),
        server_learning_rate=4.0 if record else 1.0,
    )


SPEC = MechanismSpec(
    DistributedGaussian,
    compose,
    "client",
    "distributed",
    "constant noise shared out over clients, never corrected",
    audit=(
        AuditCase(settings=("aggregate.kind=plain", "aggregate.tolerance=0.5")),
        AuditCase(settings=("aggregate.kind=plain", "mechanism.unit=record")),
    ),
    variants=(Variant("record", ("mechanism.unit=record",), "each record is hidden, not each client"),),
)

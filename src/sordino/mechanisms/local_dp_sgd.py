"""local_dp_sgd: every client runs DP-SGD on its own records, with the same noise in every step of every round.

The plain rival of `a_dpfl`: no histograms, no ranking, no plateau. Unit record, trust local, adjacency add_remove.

**Formal guarantees**: a local step is a Poisson-sampled Gaussian (rate q, multiplier z) given the broadcast model and
the steps before it: each record enters a batch by a secret coin, gradients are clipped one by one, and their sum gets
N(0, (z·clip_norm)²) before it is divided by the public expected batch. A participation is `steps` of them, and the
noise is fixed beforehand, so the accountant prices the whole run tightly; server and outsider are promised the same.
Who takes part does not depend on any record.
**Reference**: Abadi et al. (2016), "Deep Learning with Differential Privacy"; DPFL in the A-DPFL paper.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.vouched import NoisedSteps
from sordino.errors import RecipeError
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import RAREST, AuditCase, MechanismSpec, Options
from sordino.perturb.steps import StepNoise
from sordino.train.noisy import PrivateSteps

_MOST_STEPS = 10**6


class LocalDpSgd(Options):
    """Local DP-SGD with constant noise; `train` says how many steps of which batch."""

    name: Literal["local_dp_sgd"] = "local_dp_sgd"
    sampling_rate: float | None = Field(
        None,
        ge=RAREST,
        le=1,
        description="chance of a record to enter a local batch (default: batch size over mean records)",
    )


def compose(options: LocalDpSgd, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    rate, steps = batches(options.sampling_rate, facts)
    batch = rate * facts.mean_records
    noise = StepNoise(rate, steps, facts.train.learning_rate / batch)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="record",
        trust="local",
        selector=facts.selector,
        local=PrivateSteps(rate, steps, batch),
        bounder=NoisedSteps(),
        perturber=noise,
        aggregator=PlainSum(None),
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise)),
    )


def batches(sampling_rate: float | None, facts: PublicFacts) -> tuple[float, int]:
    """Returns the public rate of local batches, and how many steps a round has.

    Raises:
        RecipeError: more than anybody could play.
    """
    records = facts.mean_records
    rate = sampling_rate or min(1.0, (facts.train.batch_size or records) / records)
    steps = facts.train.steps or (facts.train.epochs or 1) * math.ceil(1 / rate)
    if steps > _MOST_STEPS:
        raise RecipeError(
            f"mechanism.sampling_rate is {rate:g}, so that a pass over a client's records takes {steps} local steps: "
            "raise it, or set train.steps"
        )
    return rate, steps


SPEC = MechanismSpec(
    LocalDpSgd,
    compose,
    "record",
    "local",
    "every client runs DP-SGD with constant noise",
    audit=(AuditCase(settings=("run.rounds=2",), trials=4_000_000),),
)

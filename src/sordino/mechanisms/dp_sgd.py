"""DP-SGD over a federation: per-example clipped gradients, summed with noise shares, no trusted server.

Unit record, trust distributed (or central, on request), adjacency add_remove.

**Formal guarantees**: one record more or less moves the sum of gradients by at most clip_norm, against noise of
noise_multiplier · clip_norm that the clients share out. Adjacent are two federations with the same clients, one of whom
holds one record more, that both agree with what is declared (`data/public.py`). The denominator is the expected batch:
`public.records` over `public.population`, times the expected cohort, times `sampling_rate`. It is public because it is
declared, and equal for both; a count of the records at hand would differ and give the record away. Each
client keeps its Poisson batch secret, so `sampling_rate` amplifies against server and outsider alike. Where it is
public that no client holds more than m records, removing a whole client moves the sum by at most m · clip_norm: with m
= 1 (one image a person) the record's guarantee is the person's. With `quantile` (central trust) the clip norm follows
the share of records that are not clipped, whose count is noised inside the same price (`perturb/quantile.py`).
Reference: Abadi et al. (2016); Kairouz et al. (2021), "The Distributed Discrete Gaussian Mechanism"; Andrew et al.
(2021), "Differentially Private Learning with Adaptive Clipping".
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sordino.adapt.quantile import QuantileClip
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import PerExample
from sordino.errors import RecipeError
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.noise import noise_for
from sordino.mechanisms.spec import MOST, RAREST, SHORTEST, AuditCase, MechanismSpec, Options
from sordino.perturb.gaussian import CentralGaussian
from sordino.perturb.quantile import QuantileGaussian
from sordino.stages import UNCLIPPED
from sordino.train.local import ExampleGradients


class DpSgd(Options):
    """Noisy sums of per-example clipped gradients; the server takes the steps (see server.learning_rate)."""

    name: Literal["dp_sgd"] = "dp_sgd"
    clip_norm: float = Field(0.5, ge=SHORTEST, le=MOST, description="bound on the gradient of one record")
    sampling_rate: float = Field(1.0, ge=RAREST, le=1, description="probability that a record is in a round's batch")
    trust: Literal["distributed", "central"] = Field("distributed", description="who adds the noise")
    quantile: float | None = Field(
        None, gt=0, lt=1, description="share of records not to be clipped, which clip_norm then follows (central trust)"
    )
    quantile_rate: float = Field(0.2, gt=0, description="how fast the clip norm moves, in log space")

    def idle(self) -> dict[str, str]:
        return {} if self.quantile else {"quantile_rate": "without mechanism.quantile: set that, too"}


def compose(options: DpSgd, facts: PublicFacts) -> Mechanism:
    """Returns the composition.

    Raises:
        RecipeError: a clip norm that moves was asked for, and integers are laid out for one that stays.
    """
    batch = facts.mean_records * facts.expected * options.sampling_rate
    if options.quantile is not None:
        return _adaptive(options, options.quantile, facts, batch)
    noise = noise_for(
        options.trust,
        "record",
        options.clip_norm,
        facts,
        batch,
        sampling_rate=options.sampling_rate,
        noise=options.noise_multiplier,
    )
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="record",
        trust=options.trust,
        selector=facts.selector,
        local=ExampleGradients(options.sampling_rate),
        bounder=PerExample(),
        perturber=noise.perturber,
        aggregator=noise.aggregator,
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise.perturber)),
        server_learning_rate=4.0,
    )


def _adaptive(options: DpSgd, quantile: float, facts: PublicFacts, batch: float) -> Mechanism:
    """Returns the composition whose clip norm follows a private quantile of the records' gradient norms."""
    if options.trust != "central":
        raise RecipeError(
            "mechanism.quantile moves the clip norm, and the integers of a secure sum are laid out for one that stays: "
            'set mechanism.trust = "central", or leave mechanism.quantile out'
        )
    rate = options.sampling_rate
    multiplier = facts.calibrate(options, CentralGaussian("record", "add_remove", rate))  # the count is inside it
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="record",
        trust="central",
        selector=facts.selector,
        local=ExampleGradients(rate, UNCLIPPED),
        bounder=PerExample(),
        perturber=QuantileGaussian(max(batch / 20, multiplier), "record", rate),
        aggregator=PlainSum(batch),
        adapter=QuantileClip(options.clip_norm, multiplier, quantile, options.quantile_rate),
        server_learning_rate=4.0,
    )


SPEC = MechanismSpec(
    DpSgd,
    compose,
    "record",
    "distributed",
    "per-example clipped gradients, noise shared out over clients",
    prepares=True,
    audit=(
        AuditCase(),
        AuditCase(settings=("mechanism.sampling_rate=0.2",)),
        AuditCase(settings=("aggregate.kind=secure",), trials=100_000),
    ),
)

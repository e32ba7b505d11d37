"""CL-FL as its authors have it: a trusted server clips updates to the median of their norms, and noises the sum.

Geyer, Klein, Nabi (2017), "Differentially Private Federated Learning: A Client Level Perspective", Algorithm 1: S is
the median of the norms of the unclipped updates of a round, each is divided by max(1, ‖u‖/S), and their sum gets
N(0, (σ·S)²) before it is divided by the number of participants. σ is the one for which the moments of sampled Gaussians
claim the budget (ε = 8, with δ = 1e-3 for 100 clients and 1e-5 for 1,000, in that paper). Unit client, trust central.

**Certified**: nothing. The median is told exactly by the noise and moves when one client comes or goes; the paper says
itself that it leaks and that ε does not count it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from sordino.account.accountants.accountant import price
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PartialSum, PlainSum
from sordino.bound.l2 import clip_rows
from sordino.bound.vouched import AsTrained
from sordino.errors import RecipeError
from sordino.events import DpEvent, GaussianDpEvent, Guarantee, PoissonSampledDpEvent, Unbounded
from sordino.mechanism import Claim, Mechanism, Perturber
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import MechanismSpec, Options
from sordino.perturb.gaussian import SERVER_ID
from sordino.perturb.price import TRUSTED
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Shielded, Summed
from sordino.terms import Knobs, Terms, Turn, Vanished
from sordino.train.local import LocalSteps

MEDIAN = "the clip norm is the exact median of private norms, and shows in the noise"


class ClFl(Options):
    """Median clipping; `clip_norm` is not used."""

    name: Literal["cl_fl"] = "cl_fl"


@dataclass(frozen=True)
class MedianSum(PlainSum):
    """Server: keeps the rows of a round, clips each to the median of their norms, and sums."""

    def start(self, terms: Terms, sensitivity: Sensitivity | None) -> PartialSum:
        return PartialSum(len(terms.cohort), terms.weights.double().expand(0, -1), sensitivity)

    def add(self, partial: PartialSum, message: Shielded) -> PartialSum:
        rows = torch.cat([partial.total, message.rows.double()])
        return replace(super().add(replace(partial, total=torch.zeros(())), message), total=rows)

    def finish(self, partial: PartialSum, vanished: Vanished) -> Summed:
        summed, norms = super().finish(partial, vanished), torch.linalg.vector_norm(partial.total, dim=1)
        median = float(norms.quantile(0.5)) if len(norms) else 0.0
        rows, _ = clip_rows(partial.total, median)
        stated = Sensitivity(median, 2, "client", MEDIAN, rowwise=False, single=False)
        return replace(summed, total=rows.sum(0), sensitivity=stated)


@dataclass(frozen=True)
class MedianGaussian(Perturber):
    """The server adds N(0, (σ·S)²) to the sum of what was clipped to S, and promises nothing."""

    def refuses(self, bound: Sensitivity | None) -> None:
        return None

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return (
            (Guarantee("client", "server", "zero_out"), Unbounded(TRUSTED)),
            (Guarantee("client", "outsider", "add_remove"), Unbounded(MEDIAN)),
        )

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        return Sent(bounded.shielded(bounded.rows))

    def release(self, summed: Summed, turn: Turn) -> Released:
        level = turn.knobs.noise_multiplier * summed.norm
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(turn.weights))[0]
        mean = ((summed.total + noise * level) / summed.weight).to(turn.weights.dtype)
        return Released(mean, level / summed.weight, self.price(turn.knobs))


def compose(options: ClFl, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    if options.mode != "faithful":
        raise RecipeError("mechanism cl_fl is there as printed alone: set mechanism.mode to 'faithful'")
    rate = min(1.0, facts.expected / facts.population)

    def sampled(sigma: float) -> DpEvent:
        return PoissonSampledDpEvent(rate, GaussianDpEvent(sigma))

    sigma = options.noise_multiplier or facts.target.least_noise(lambda z: {sampled(z): facts.rounds}, "rdp-classic")
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="central",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=AsTrained(),
        perturber=MedianGaussian(),
        aggregator=MedianSum(None),
        adapter=Steady(options.clip_norm, sigma),
        claim=Claim(
            "Rényi accounting of the sampled Gaussian of multiplier σ, as if S were a constant",
            lambda rounds, delta: price({sampled(sigma): rounds}, "rdp-classic").epsilon(delta),
            per_round=True,
        ),
    )


SPEC = MechanismSpec(
    ClFl,
    compose,
    "client",
    "central",
    "a trusted server clips to the median norm",
    "Geyer, Klein, Nabi (2017), Differentially Private Federated Learning: A Client Level Perspective",
)

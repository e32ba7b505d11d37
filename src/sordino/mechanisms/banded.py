"""banded: a trusted server whose noise remembers, over cohorts that take turns.

What "noise that remembers" (`fed_cad`) wants to be. Unit client, trust central, adjacency zero_out for the outsider (a
client's place in the rota is its position among those who are there: one that leaves moves others into other rounds).

**Formal guarantees.** *Proof.* (1) An update is clipped to clip_norm, and the denominator is a public constant: a
client moves the sum of a round in which it takes part by at most clip_norm. (2) Clients take turns in `groups`
groups, so two participations are at least that many rounds apart, by the round's number alone
(`select/separated.py`). (3) Noise is correlated over `bands` ≤ `groups` rounds, so a client moves all that is hidden
by at most clip_norm·√k after k participations (`account/accountants/banded.py`), against independent noise of
z·clip_norm: k Gaussians of multiplier z. (4) What is released follows from that. No amplification is counted on.

Where it pays: independent noise of the same price has errors that add up in the model; banded noise takes back most of
it in the rounds that follow. With everybody in every round there is nothing to gain: for the final sum, noise of any
correlation is at least as bad as independent noise (docs/mechanisms/fed_cad.md has the proof).
**Reference**: Choquette-Choo et al. (2023), "(Amplified) Banded Matrix Factorization"; Kairouz et al. (2021), DP-FTRL.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from sordino.account.accountants.banded import coefficients
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Presummed
from sordino.errors import RecipeError
from sordino.events import CorrelatedGaussian
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import MechanismSpec, Options, Variant
from sordino.perturb.banded import BandedNoise
from sordino.select.fixed import Everyone
from sordino.select.separated import Separated
from sordino.train.local import SummedSteps


class Banded(Options):
    """Central noise that is taken back over `bands` rounds; `groups` of clients take turns."""

    name: Literal["banded"] = "banded"
    groups: int = Field(10, ge=1, description="groups that take turns: a client is asked once in so many rounds")
    bands: int | None = Field(
        None, ge=1, description="rounds over which noise is correlated, at most `groups` (default: all; 1: independent)"
    )


def compose(options: Banded, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    bands = min(options.bands or options.groups, facts.rounds)
    _require(options, facts, bands)
    selector = Separated(options.groups)
    times = math.ceil(facts.rounds / options.groups)
    multiplier = options.noise_multiplier or facts.target.least_noise(lambda z: {CorrelatedGaussian(z): times})
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="central",
        selector=selector,
        local=SummedSteps(),
        bounder=Presummed(),
        perturber=BandedNoise(coefficients(bands, facts.rounds)),
        aggregator=PlainSum(selector.expected(facts.population)),
        adapter=Steady(options.clip_norm, multiplier),
    )


def _require(options: Banded, facts: PublicFacts, bands: int) -> None:
    if bands > options.groups:
        raise RecipeError(
            f"mechanism.bands is {bands} and mechanism.groups {options.groups}: noise may be correlated over at most "
            "as many rounds as participations are apart"
        )
    if not isinstance(facts.selector, Everyone):
        raise RecipeError("select.kind draws cohorts, and banded has a rota of its own: leave select out")


SPEC = MechanismSpec(
    Banded,
    compose,
    "client",
    "central",
    "a trusted server's noise is taken back in later rounds, clients take turns",
    variants=(
        Variant("independent", ("mechanism.bands=1",), "the same rota, fresh noise in every round"),
        Variant(
            "sampled",
            ("mechanism.name=dp_fedavg", "select.kind=poisson", "select.rate=0.1"),
            "DP-FedAvg with cohorts drawn by coins, amplification counted",
        ),
    ),
)

"""dropout_robust: noise shared out over a cohort that loses clients, brought back to exactly what was promised.

Baek, Kim, Nam, Park (2021), "Enhancing Differential Privacy for Federated Learning at Scale". Unit client, trust
distributed: the server sees sums, and what survivors reveal to correct the noise.

**Certified.** Each client sends w_i·clip(u_i), w_i = min(n_i/record_limit, 1), plus a share of noise drawn for the
fewest survivors that a round accepts; when n′ are left, each splits its share into a part that stays and an independent
part that it reveals and that is subtracted (`perturb/shares.py`; in integers `perturb/integer_shares.py`).

*Proof.* (1) ‖w_i·clip(u_i)‖ ≤ clip_norm since w_i ≤ 1, so one client moves the sum by at most clip_norm, under zero_out
and add_remove alike. (2) What is revealed is independent of what stays, so given all that the server sees besides, the
noise around the sum of the survivors' contributions is exactly N(0, (z·clip_norm)²), for every cohort and every n′ ≥
n_0: the release is one Gaussian of multiplier z. A client that vanishes before it reveals leaves its whole share: the
noise is a sum of that and an independent rest, and post-processing cannot hurt. (3) The denominator is a public
constant. (4) The server knows the cohort: it gets no amplification, and zero_out is its adjacency, since who was asked
is no secret to it. An outsider sees the released model only, whose law depends on the cohort through the sum alone, so
Poisson coins amplify under add_remove. Taken as given: honest clients add their shares, and who vanishes when (and so
whether a round is aborted, and how much noise beyond the target stays when clients vanish between sending and
revealing) is the same with and without one client; where an outsider could tell that apart, he still has the server's
promise, of whose view his own is a function.

**Faithful.** Algorithm 2 (`plain`), Algorithm 3 (`extended`), or no correction (`uncalibrated`), see
`perturb/printed.py`; with `aggregate.kind = "secure"` messages go through the protocol as integers, as in Algorithm 3
(`perturb/printed_integers.py`), else a plain sum stands in for it. What survivors send tells the server about the noise
that stays, so its certified ε belongs to 2z·√(n′/(n+n′)) instead of 2z, and the division by the survivors' weight
leaves add_remove without any bound. The claim is the paper's accountant. With `record_limit` every client's weight is
told: unless `public.sizes` declares these numbers public, nothing is promised at all.

Where we deviate: shares are equal and not in proportion to w_i, so that nobody has to tell the server how much data it
has; the sum is divided by a public constant; the noise multiplier is relative to clip_norm, not to 2·clip_norm.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from sordino.account.accountants.accountant import price
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.aggregate.printed_sum import PrintedSecureSum
from sordino.bound.weighted import StayNear, WeightedClip, weights
from sordino.errors import RecipeError
from sordino.events import DpEvent, GaussianDpEvent, PoissonSampledDpEvent
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.noise import noise_for
from sordino.mechanisms.spec import CERTIFIED, FAITHFUL, AuditCase, MechanismSpec, Options, Variant
from sordino.perturb.printed import Form, PrintedShares
from sordino.perturb.printed_integers import FRACTION_BITS, PrintedIntegerShares
from sordino.train.local import LocalSteps

PRIVATE_WEIGHTS = "each client tells how many records it holds, and public.sizes does not declare these numbers public"


class DropoutRobust(Options):
    """Client-level privacy without a trusted server, whoever drops out."""

    name: Literal["dropout_robust"] = "dropout_robust"
    record_limit: int | None = Field(
        None, ge=1, description="n_max: a client counts min(its records / n_max, 1) (default: everybody counts 1)"
    )
    mean_weight: float = Field(
        1.0,
        gt=0,
        le=1,
        description="public guess of the mean weight: the sum is divided by it times the cohort (certified)",
    )
    correction: Literal["thin", "keep", "discard"] = Field(
        "thin",
        description="when clients vanish: thin the noise to the target, keep the worst case's, or discard the round "
        "(certified)",
    )
    form: Form = Field(
        "extended", description="Algorithm 2 (`plain`), 3 (`extended`), or noise that is left as it is (faithful)"
    )
    minimum_weight: float | None = Field(
        None, gt=0, description="n_0, the least weight that a round accepts (faithful; default: from the tolerance)"
    )

    def idle(self) -> dict[str, str]:
        if self.mode == "certified":
            return dict.fromkeys(("form", "minimum_weight"), FAITHFUL)
        return dict.fromkeys(("mean_weight", "correction"), CERTIFIED)


def compose(options: DropoutRobust, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    return _faithful(options, facts) if options.mode == "faithful" else _certified(options, facts)


def _certified(options: DropoutRobust, facts: PublicFacts) -> Mechanism:
    # shares for a cohort that nobody leaves: with one client fewer a round has too little noise, and is aborted
    facts = replace(facts, tolerance=0.0) if options.correction == "discard" else facts
    weight, thin = facts.expected * options.mean_weight, options.correction == "thin"
    noise = noise_for(
        "distributed", "client", options.clip_norm, facts, weight, noise=options.noise_multiplier, thin=thin
    )
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="distributed",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=WeightedClip(options.record_limit),
        perturber=noise.perturber,
        aggregator=noise.aggregator,
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise.perturber)),
        after_step=StayNear(options.clip_norm),
    )


def _faithful(options: DropoutRobust, facts: PublicFacts) -> Mechanism:
    counts, weighted = _weights(options, facts), options.record_limit is not None
    expected = facts.expected * (float(counts.mean()) if facts.sizes_public else _mean_weight(options, facts))
    least = options.minimum_weight or (1 - facts.tolerance) * expected
    why = PRIVATE_WEIGHTS if weighted and not facts.sizes_public else None
    kind = PrintedIntegerShares if facts.secure_by_name else PrintedShares
    shares = kind(options.form, counts, least, facts.tolerance, why)
    multiplier = options.noise_multiplier or _calibrated(options, facts)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="distributed",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=WeightedClip(options.record_limit),
        perturber=shares,
        aggregator=_printed_sum(shares, facts),
        adapter=Steady(options.clip_norm, multiplier),
        claim=_claim(options, facts, multiplier),
        after_step=StayNear(options.clip_norm),
    )


def _printed_sum(shares: PrintedShares, facts: PublicFacts) -> PlainSum | PrintedSecureSum:
    if not isinstance(shares, PrintedIntegerShares):
        return PlainSum(None)
    if facts.tolerance + facts.corrupt / 2 >= 0.5 or facts.shards > 1:
        raise RecipeError(
            f"aggregate.tolerance is {facts.tolerance:g}, aggregate.corrupt {facts.corrupt:g} and aggregate.shards "
            f"{facts.shards}: the printed secure sum needs tolerance + corrupt / 2 below 0.5, and one shard"
        )
    scale = 2.0**FRACTION_BITS
    return PrintedSecureSum(1.0, facts.tolerance, shares.modulus_bits, facts.fidelity, facts.corrupt, scale)


def _weights(options: DropoutRobust, facts: PublicFacts) -> Tensor:
    """Returns every client's weight, as it tells the server (Algorithm 3, line 14): private, unless declared."""
    sizes = np.zeros(facts.population, np.int64) if facts.private_sizes is None else facts.private_sizes
    return weights(sizes, options.record_limit)


def _mean_weight(options: DropoutRobust, facts: PublicFacts) -> float:
    return 1.0 if options.record_limit is None else min(1.0, facts.mean_records / options.record_limit)


def _calibrated(options: DropoutRobust, facts: PublicFacts) -> float:
    """Returns the least z for which the paper claims the budget after all rounds."""
    return facts.target.least_noise(lambda z: {_claimed_event(options, facts, z): facts.rounds}, "rdp-classic")


def _claimed_event(options: DropoutRobust, facts: PublicFacts, multiplier: float) -> DpEvent:
    """Returns what the paper charges for a round (Table 2): a sampled Gaussian of multiplier z.

    Without calibration that is z·√(n′/n); we take the largest dropout that a round accepts.
    """
    kept = 1 - facts.tolerance if options.form == "uncalibrated" else 1.0
    rate = min(1.0, facts.expected / facts.population)
    return PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier * math.sqrt(kept)))


def _claim(options: DropoutRobust, facts: PublicFacts, multiplier: float) -> Claim:
    event = _claimed_event(options, facts, multiplier)
    return Claim(
        "Rényi accounting of the sampled Gaussian of multiplier z, orders up to 63, ε = D_α + ln(1/δ)/(α−1)",
        lambda rounds, delta: price({event: rounds}, "rdp-classic").epsilon(delta),
        per_round=True,
    )


FLAW = (
    "When clients drop out, survivors send the server e′ = −e + fresh noise to correct the sum. But e′ depends on "
    "the noise e that is in the sum, and the server sees both: given e′, the noise that is left has variance "
    "v_e·v_f/(v_e + v_f), half of what was promised or less. The attack simply weighs the sum and the e′ together. "
    "(Sending an independent part instead, as the certified mode does, reveals nothing.)"
)

SPEC = MechanismSpec(
    DropoutRobust,
    compose,
    "client",
    "distributed",
    "noise shares that stay exact whoever drops out",
    paper="Baek et al. (2021), Enhancing Differential Privacy for Federated Learning at Scale",
    flaw=FLAW,
    prepares=True,
    audit=(
        AuditCase(settings=("aggregate.kind=plain", "aggregate.tolerance=0.5")),
        AuditCase(
            settings=(
                "aggregate.kind=secure",
                "aggregate.tolerance=0.25",
            ),
            trials=50_000,
        ),
        AuditCase(
            "faithful",
            (
                "mechanism.form=plain",
                "mechanism.noise_multiplier=1",
                "aggregate.tolerance=0.34",
            ),
            clients=3,
            adjacency="replace",
            trials=10_000_000,
        ),
        AuditCase(
            "faithful",
            (
                "mechanism.form=extended",
                "mechanism.noise_multiplier=1.5",
                "aggregate.tolerance=0.34",
            ),
            clients=3,
            adjacency="replace",
            trials=20_000_000,
        ),
    ),
    variants=(
        Variant("unthinned", ("mechanism.correction=keep",), "noise for the fewest survivors stays, whoever survived"),
        Variant("discarded", ("mechanism.correction=discard",), "a round that loses a client is thrown away"),
    ),
)

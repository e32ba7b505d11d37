"""geometric: noise whose variance is multiplied by θ from round to round, refined when the loss stops falling.

Yuan, Ni, Ding, Wei, Li, Poor (2023), "Amplitude-Varying Perturbation for Balancing Privacy and Utility in Federated
Learning". Trust local (as printed), or distributed, or central; unit client, or record under distributed or central
trust.

**Certified.** *Proof.* (1) A client's update is clipped to clip_norm (for the record unit: every example's gradient
is), so a unit moves what is hidden by at most clip_norm (2·clip_norm for replace), and round m adds noise of
z_m·clip_norm, z_m = z·θ^((m−1)/2): one Gaussian of multiplier z_m. (2) Without refinement all z_m are fixed
beforehand, and z is the least for which the accountant prices the whole schedule, or the `participations` dearest
rounds of it, within the budget. (3) With refinement z changes when the loss on public data stops falling. That is a
choice from released values, so rounds are admitted by a privacy filter that was fixed at the start; z is found again
so that what was spent and what is to come are admitted together (`adapt/refine.py`), whenever that happens.

**Faithful.** τ full-batch steps with *weights* clipped to C after each, σ of Eq. (8) with Δs = 2C/|D_k| (the smallest
|D_k|), averages weighted by |D_k|, and Theorem 2's refinement. What leaves a client is w with ‖w‖ ≤ C plus known
noise, so its certified ε is finite; but the sensitivity is C (zero_out) or 2C (replace) and not 2C/|D_k|, and it is
astronomical.

Where we deviate: p_k and |D_k| count as public in faithful mode; M* takes θ − 1 for a misprinted U − 1
(`account/plan/convergence.py`), and in certified mode comes from the certified noise. M* rounds have T/M* local steps
each, T being those of the recipe, so that fewer aggregations cost no training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from pydantic import Field

from sordino.account.accountants.published import yuan_sum
from sordino.account.plan.convergence import ConvergenceBound
from sordino.adapt.contraction import Contraction, best_theta
from sordino.adapt.geometric import Geometric, relative
from sordino.adapt.printed_schedule import PrintedSchedule
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip, PerExample
from sordino.bound.weights import ClipWeights, WeightBall
from sordino.errors import RecipeError
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.convergence import ConvergenceOptions
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.noise import noise_for
from sordino.mechanisms.schedule import SchedulePlan
from sordino.mechanisms.spec import CERTIFIED, AuditCase, MechanismSpec, MessageAdjacency, Options, Variant
from sordino.perturb.weighted import WeightedGaussian
from sordino.train.local import ExampleGradients, LocalSteps
from sordino.types import Trust, Unit

PRIVATE_WEIGHTS = "clients are weighted by how many records they hold, which public.sizes does not declare public"
PRINTED_THETA = 1.05
UNFILTERED = "noise is lowered under way by what was released, and no privacy filter holds the sum"


class GeometricNoise(Options):
    """Noise that grows or shrinks; `noise_multiplier` is that of the first round."""

    name: Literal["geometric"] = "geometric"
    unit: Unit = Field("client", description="whose presence is hidden (certified)")
    trust: Trust = Field("local", description="who adds the noise (certified; the paper's is local)")
    adjacency: MessageAdjacency = "zero_out"
    theta: float | None = Field(
        None,
        gt=0,
        description="θ: ratio of noise variances from one round to the next (default: from how much the server's "
        "weight decay and momentum forget, which is 1 for neither; 1.05 as printed)",
    )
    refine: bool = Field(False, description="shorten the schedule when the loss on public data stops falling")
    shrink: float = Field(0.8, gt=0, lt=1, description="α_d: rounds are cut to this share at each refinement")
    convergence: ConvergenceOptions | None = Field(
        None, description="constants of the loss: plan for the M* ≤ run.rounds aggregations that they favour"
    )

    def idle(self) -> dict[str, str]:
        found = {} if self.refine else {"shrink": "without mechanism.refine: set that, too"}
        return found if self.mode == "certified" else found | {"unit": CERTIFIED, "trust": CERTIFIED}


def compose(options: GeometricNoise, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    if options.refine and not facts.public:
        raise RecipeError("mechanism.refine watches the loss on public data: set data.public_fraction, e.g. 0.1")
    return _faithful(options, facts) if options.mode == "faithful" else _certified(options, facts)


def _certified(options: GeometricNoise, facts: PublicFacts) -> Mechanism:
    record, theta = options.unit == "record", theta_of(options, facts)
    share = facts.mean_records if record else 1.0
    highest = max(1.0, relative(theta, facts.rounds))
    noise = noise_for(
        options.trust,
        options.unit,
        options.clip_norm,
        facts,
        facts.expected * share,
        options.adjacency,
        noise=options.noise_multiplier and options.noise_multiplier * highest,
    )

    def planned(length: int) -> SchedulePlan:
        shape = [relative(theta, m) for m in range(1, length + 1)]
        releases = tuple(facts.releases(noise.perturber, options.clip_norm, length))
        return SchedulePlan(facts.target, releases, shape, options.noise_multiplier)

    added = facts.expected if options.trust == "local" else 1.0
    server_rate = 2.0 if record else 1.0
    scale = server_rate * options.clip_norm * math.sqrt(added * facts.layout.width) / (facts.expected * share)
    rounds = planned_rounds(options, facts, lambda m: (scale * planned(m).priced()) ** 2)
    plan = planned(rounds)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit=options.unit,
        trust=options.trust,
        selector=facts.selector,
        local=ExampleGradients() if record else LocalSteps(),
        bounder=PerExample() if record else Clip(),
        perturber=noise.perturber,
        aggregator=noise.aggregator,
        adapter=Geometric(
            options.clip_norm,
            plan.filtered() if options.refine else plan.priced(),
            theta,
            rounds,
            options.shrink,
            plan.refit() if options.refine else None,
        ),
        adaptive=options.refine,
        stretch=facts.rounds / rounds,
        server_learning_rate=server_rate,
    )


def _faithful(options: GeometricNoise, facts: PublicFacts) -> Mechanism:
    printed, clip_norm = _printed(options, facts), options.clip_norm
    rounds = planned_rounds(options, facts, lambda m: printed.sigma(yuan_sum(theta_of(options, facts), m)) ** 2)
    level = options.noise_multiplier or printed.sigma(yuan_sum(theta_of(options, facts), rounds)) / clip_norm
    refit = printed if options.refine else None
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=WeightBall(),
        perturber=WeightedGaussian(_unproved(options, facts), options.adjacency),
        aggregator=PlainSum(denominator=None),
        adapter=Geometric(clip_norm, level, theta_of(options, facts), rounds, options.shrink, refit),
        claim=Claim(
            "Eq. (8) solved for ε: (Δs/σ)·√(2q·S·ln(1/δ)), for the whole schedule, whoever took part",
            lambda times, delta: printed.claimed(level, rounds, delta),
        ),
        stretch=facts.rounds / rounds,
        after_step=ClipWeights(clip_norm),
    )


def theta_of(options: GeometricNoise, facts: PublicFacts) -> float:
    """Returns θ: as set, or the one that suits how much the recipe forgets (certified), or the paper's (faithful)."""
    if options.theta is not None:
        return options.theta
    return PRINTED_THETA if options.mode == "faithful" else best_theta(contraction_of(facts), facts.rounds)


def contraction_of(facts: PublicFacts) -> Contraction:
    """Returns what the recipe forgets in a round: the server's weight decay and momentum."""
    return Contraction(facts.server_weight_decay, facts.server_momentum)


def _unproved(options: GeometricNoise, facts: PublicFacts) -> str | None:
    if options.refine:
        return UNFILTERED
    return None if facts.sizes_public else PRIVATE_WEIGHTS


def planned_rounds(options: GeometricNoise, facts: PublicFacts, energy: Callable[[int], float]) -> int:
    """Returns M: run.rounds, or M* where the constants of the loss are given and noise has this energy by M.

    The work stays the same: T = run.rounds · local steps, of which M rounds have τ = T/M each (`Mechanism.stretch`).
    """
    if options.convergence is None:
        return facts.rounds
    records, passes = facts.mean_records, facts.train.epochs or 1
    steps = facts.train.steps or passes * math.ceil(records / min(records, facts.train.batch_size or records))
    bound = ConvergenceBound(
        options.convergence.constants(),
        facts.rounds * steps,
        max(2, facts.population),
        facts.expected,
        theta_of(options, facts),
        facts.train.learning_rate,
    )
    return bound.best(facts.rounds, energy).aggregations


def _printed(options: GeometricNoise, facts: PublicFacts) -> PrintedSchedule:
    epsilon = facts.target.limit("mechanism.mode to certified: Eq. (8) computes the noise from it")
    records, rate = facts.least_records, min(1.0, facts.expected / facts.population)
    return PrintedSchedule(theta_of(options, facts), options.clip_norm, records, rate, epsilon, facts.target.delta)


FLAW = (
    "Δs = 2C/|D_k| would be the sensitivity of an average of |D_k| clipped terms. What is sent is a trained model "
    "whose weights were clipped to C: one record with a large gradient can move it from one side of the ball to the "
    "other, by 2C. The noise is |D_k| times too small for that."
)

SPEC = MechanismSpec(
    GeometricNoise,
    compose,
    "client",
    "local",
    "noise that grows or shrinks by θ a round",
    "Yuan et al.",
    flaw=FLAW,
    audit=(
        AuditCase(settings=("run.rounds=4",)),
        AuditCase(
            "faithful",
            (
                "mechanism.clip_norm=5",
                "mechanism.adjacency=replace",
                "budget.epsilon=10",
                "budget.delta=0.001",
                "select.kind=fixed",
                "select.size=1",
                "run.rounds=3",
            ),
            clients=10,
            records=600,
            trials=1_000_000,
        ),
    ),
    variants=(
        Variant("constant", ("mechanism.theta=1",), "the same noise in every round"),
        Variant("distributed", ("mechanism.trust=distributed",), "noise is shared out, and the server sees sums"),
        Variant(
            "record",
            ("mechanism.unit=record", "mechanism.trust=distributed"),
            "each record is hidden, noise is shared out",
        ),
        Variant("central", ("mechanism.trust=central",), "a trusted server adds the noise"),
    ),
)

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
(`convergence.py`).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sordino.account.accountants.published import yuan_sum
from sordino.adapt.geometric import Geometric, relative
from sordino.adapt.printed_schedule import PrintedSchedule
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip, PerExample
from sordino.bound.weights import ClipWeights, WeightBall
from sordino.errors import RecipeError
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.convergence import Convergence
from sordino.mechanisms.facts import Entry, Options, Setting
from sordino.mechanisms.schedule import Plan, lines
from sordino.mechanisms.trusted import noise_for
from sordino.perturb.weighted import WeightedGaussian
from sordino.train.local import ExampleGradients, LocalSteps
from sordino.types import Adjacency, Trust, Unit

UNFILTERED = "noise is lowered under way by what was released, and no privacy filter holds the sum"


class GeometricNoise(Options):
    """Noise that grows or shrinks; `noise_multiplier` is that of the first round."""

    name: Literal["geometric"] = "geometric"
    unit: Unit = Field("client", description="whose presence is hidden (certified)")
    trust: Trust = Field("local", description="who adds the noise (certified; the paper's is local)")
    adjacency: Literal["zero_out", "replace"] = Field(
        "zero_out", description="what a message hides: what it says, or any change (`replace`)"
    )
    theta: float = Field(1.05, gt=0, description="θ: ratio of noise variances from one round to the next")
    refine: bool = Field(False, description="shorten the schedule when the loss on public data stops falling")
    shrink: float = Field(0.8, gt=0, lt=1, description="α_d: rounds are cut to this share at each refinement")
    convergence: Convergence | None = Field(
        None, description="constants of the loss: plan for the M* ≤ run.rounds aggregations that they favour"
    )


def compose(options: GeometricNoise, setting: Setting) -> Mechanism:
    """Returns the composition."""
    if options.refine and not setting.public:
        raise RecipeError("mechanism.refine watches the loss on public data: set data.public_fraction, e.g. 0.1")
    return _faithful(options, setting) if options.mode == "faithful" else _certified(options, setting)


def _certified(options: GeometricNoise, setting: Setting) -> Mechanism:
    record = options.unit == "record"
    share = float(setting.sizes.mean()) if record else 1.0
    hides: Adjacency = "add_remove" if record else options.adjacency
    noise = noise_for(options.trust, options.unit, hides, options, setting, setting.expected * share)
    rounds = planned_rounds(options, setting)
    shape = [relative(options.theta, m) for m in range(1, rounds + 1)]
    plan = Plan(setting.budget, lines(setting, noise.price, rounds), shape, options.noise_multiplier)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit=options.unit,
        trust=options.trust,
        selector=setting.selector,
        local=ExampleGradients() if record else LocalSteps(),
        bounder=PerExample() if record else Clip(),
        perturber=noise.perturber,
        aggregator=noise.aggregator,
        adapter=Geometric(
            options.clip_norm,
            plan.filtered() if options.refine else plan.priced(),
            options.theta,
            rounds,
            options.shrink,
            plan.refit() if options.refine else None,
        ),
        adaptive=options.refine,
        server_learning_rate=2.0 if record else 1.0,
    )


def _faithful(options: GeometricNoise, setting: Setting) -> Mechanism:
    printed, clip_norm, rounds = _printed(options, setting), options.clip_norm, planned_rounds(options, setting)
    level = options.noise_multiplier or printed.sigma(yuan_sum(options.theta, rounds)) / clip_norm
    refit = printed if options.refine else None
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=setting.selector,
        local=LocalSteps(),
        bounder=WeightBall(),
        perturber=WeightedGaussian(UNFILTERED if options.refine else None, options.adjacency),
        aggregator=PlainSum(denominator=None),
        adapter=Geometric(clip_norm, level, options.theta, rounds, options.shrink, refit),
        claim=Claim(
            "Eq. (8) solved for ε: (Δs/σ)·√(2q·S·ln(1/δ)), for the whole schedule, whoever took part",
            lambda times, delta: printed.claimed(level, rounds, delta),
        ),
        after_step=ClipWeights(clip_norm),
    )


def planned_rounds(options: GeometricNoise, setting: Setting) -> int:
    """Returns M: run.rounds, or M* where the constants of the loss are given."""
    if options.convergence is None:
        return setting.rounds
    contraction = options.convergence.contraction(setting.train.learning_rate, setting.population, setting.expected)
    unit = _printed(options, setting).sigma(1.0) ** 2
    return options.convergence.best(setting.rounds, contraction, options.theta, unit)


def _printed(options: GeometricNoise, setting: Setting) -> PrintedSchedule:
    budget = setting.budget
    if budget.epsilon is None:
        raise RecipeError("budget.epsilon is missing: Eq. (8) computes the noise from it")
    records, rate = int(max(1, setting.sizes.min())), min(1.0, setting.expected / setting.population)
    return PrintedSchedule(options.theta, options.clip_norm, records, rate, budget.epsilon, budget.delta)


ENTRY = Entry(GeometricNoise, compose, "client", "local", "noise that grows or shrinks by θ a round", "Yuan et al.")

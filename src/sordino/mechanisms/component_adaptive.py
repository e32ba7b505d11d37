"""component_adaptive: more noise where the model moves far, less where it hardly moves.

Xue, Xue, Zhu, Luo, Zhang, Sun, Lu, "Differentially Private Federated Learning with an Adaptive Noise Mechanism".
Unit client. Trust local (as printed), or distributed, or central; adjacency zero_out, or replace on request.

**Certified.** *Proof.* (1) The scales s of a round are made from released means and public noise levels alone
(`adapt/movement.py`), so given the past they are constants. (2) Every client sends v = u/s with ‖v‖ ≤ clip_norm,
whether it was clipped as a ball or truncated as a box (`bound/scaled.py`), so one client moves the sum of v's by at
most clip_norm (zero_out, add_remove), or 2·clip_norm (replace). (3) Isotropic noise of z·clip_norm is added in the
same units, by each client, by all together, or by the server: one Gaussian of multiplier z (z/2 for replace),
whatever s is. (4) Multiplying by s, and dividing by the expected cohort, is post-processing. Since z is fixed
beforehand, rounds compose as Gaussians do, adaptively in s.

**Faithful.** Thresholds and noise from each client's own predicted step (`bound/predicted.py`), averages weighted by
data size, σ0 from Eq. (13) for T uploads (or `noise_multiplier`), and nobody uploads once δ_i of Eq. (12) would
exceed δ*: the paper's ε is held to the budget. The thresholds are private, so certified ε is infinite. Read literally
the noise is √d·σ0·β·|ŵ|, thousands of times the weights; `sensitivity_divisor` is the other reading (see
`docs/mechanisms`).

Where we deviate: a client stops *before* the upload that would exceed δ*, where Algorithm 2 stops after it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sordino.account.accountants.published import xue_epsilon, xue_sigma0
from sordino.adapt.movement import Movement
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.predicted import PredictedBox
from sordino.bound.scaled import ScaledClip
from sordino.errors import RecipeError
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.facts import Entry, Options, Setting
from sordino.mechanisms.trusted import noise_for
from sordino.perturb.scaled import Scaled
from sordino.perturb.weighted import WeightedGaussian
from sordino.train.local import LocalSteps
from sordino.types import Trust

PRIVATE_SCALES = "noise scales and truncation thresholds are computed from each client's private model"


class ComponentAdaptive(Options):
    """Noise by component; `noise_multiplier` is the paper's σ0 in faithful mode."""

    name: Literal["component_adaptive"] = "component_adaptive"
    trust: Trust = Field("local", description="who adds the noise (certified; the paper's is local)")
    adjacency: Literal["zero_out", "replace"] = Field(
        "zero_out", description="what a message hides: what it says, or any change (`replace`)"
    )
    allocation: Literal["equal", "least_energy"] | None = Field(
        None,
        description="noise in proportion to a component (`equal`, as printed), or of least total energy (certified)",
    )
    shape: Literal["ball", "box"] = Field("ball", description="bound on scaled updates (certified)")
    decay: float = Field(0.9, ge=0, lt=1, description="memory of past movement (certified)")
    floor: float = Field(1.0, gt=0, description="least movement told apart, in units of its noise (certified)")
    beta: float = Field(1.1, gt=0, description="β: width of the predicted interval (faithful)")
    sensitivity_divisor: float = Field(
        1.0, gt=0, description="divides the printed sensitivity, e.g. by the batch size (faithful)"
    )


def compose(options: ComponentAdaptive, setting: Setting) -> Mechanism:
    """Returns the composition."""
    return _faithful(options, setting) if options.mode == "faithful" else _certified(options, setting)


def _certified(options: ComponentAdaptive, setting: Setting) -> Mechanism:
    noise = noise_for(options.trust, "client", options.adjacency, options, setting, setting.expected)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust=options.trust,
        selector=setting.selector,
        local=LocalSteps(),
        bounder=ScaledClip(options.shape),
        perturber=Scaled(noise.perturber),
        aggregator=noise.aggregator,
        adapter=Movement(
            setting.layout.width,
            options.clip_norm,
            setting.calibrate(options, noise.price),
            options.allocation or "least_energy",
            options.decay,
            options.floor,
        ),
    )


def _faithful(options: ComponentAdaptive, setting: Setting) -> Mechanism:
    sigma0 = options.noise_multiplier
    if sigma0 is None:
        if setting.budget.epsilon is None:
            raise RecipeError("mechanism.noise_multiplier and budget.epsilon are both missing: set one of them")
        sigma0 = xue_sigma0(setting.budget.epsilon, setting.participations, setting.budget.delta)
    box = PredictedBox(setting.train, options.beta, options.allocation or "equal", options.sensitivity_divisor)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=setting.selector,
        local=LocalSteps(trace=True),
        bounder=box,
        perturber=WeightedGaussian(PRIVATE_SCALES, options.adjacency),
        aggregator=PlainSum(denominator=None),
        adapter=Steady(options.clip_norm, sigma0),
        claim=Claim("Eq. (7): min over whole α of L·α/(2σ0²) + ln(1/δ)/(α−1)", lambda n, d: xue_epsilon(n, sigma0, d)),
    )


ENTRY = Entry(ComponentAdaptive, compose, "client", "local", "noise follows how far each component moves", "Xue et al.")

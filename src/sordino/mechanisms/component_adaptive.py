"""component_adaptive: more noise where the model moves far, less where it hardly moves.

Xue, Xue, Zhu, Luo, Zhang, Sun, Lu, "Differentially Private Federated Learning with an Adaptive Noise Mechanism".
Unit client. Trust local (as printed), or distributed, or central; adjacency zero_out, or replace on request.

**Certified.** *Proof.* (1) The scales s of a round are made from released means and public noise levels alone
(`adapt/movement.py`), so given the past they are constants. (2) Every client sends v = (u − p)/s with
‖v‖ ≤ clip_norm, whether it was clipped as a ball or truncated as a box (`bound/scaled.py`); p is zero, or the step that
released means predict (`predict`), a constant as s is. So one client moves the sum of v's by at most clip_norm
(zero_out, add_remove), or 2·clip_norm (replace). (3) Isotropic noise of z·clip_norm is added in the
same units, by each client, by all together, or by the server: one Gaussian of multiplier z (z/2 for replace),
whatever s is. (4) Multiplying by s, dividing by the expected cohort, and adding p is post-processing. Since z is fixed
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

import numpy as np
from pydantic import Field

from sordino.account.accountants.published import xue_epsilon, xue_sigma0
from sordino.adapt.movement import Movement
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.predicted import PredictedBox
from sordino.bound.scaled import ScaledClip
from sordino.charts import Axis, Boxes, Chart, RunNumbers, first_five, five_numbers, marks
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.noise import noise_for
from sordino.mechanisms.spec import CERTIFIED, FAITHFUL, AuditCase, MechanismSpec, MessageAdjacency, Options, Variant
from sordino.perturb.scaled import Scaled
from sordino.perturb.weighted import WeightedGaussian
from sordino.train.local import LocalSteps
from sordino.types import Trust

PRIVATE_SCALES = "noise scales and truncation thresholds are computed from each client's private model"


class ComponentAdaptive(Options):
    """Noise by component; `noise_multiplier` is the paper's σ0 in faithful mode."""

    name: Literal["component_adaptive"] = "component_adaptive"
    trust: Trust = Field("local", description="who adds the noise (certified; the paper's is local)")
    adjacency: MessageAdjacency = "zero_out"
    allocation: Literal["equal", "least_energy"] | None = Field(
        None,
        description="noise in proportion to a component (`equal`, as printed), or of least total energy (certified)",
    )
    shape: Literal["ball", "box"] = Field("ball", description="bound on scaled updates (certified)")
    decay: float = Field(0.9, ge=0, lt=1, description="memory of past movement (certified)")
    floor: float = Field(1.0, gt=0, description="least movement told apart, in units of its noise (certified)")
    predict: bool = Field(False, description="bounds updates around the step that released ones predict (certified)")
    beta: float = Field(1.1, gt=0, description="β: width of the predicted interval (faithful)")
    sensitivity_divisor: float = Field(
        1.0, gt=0, description="divides the printed sensitivity, e.g. by the batch size (faithful)"
    )
    root_dimension: bool = Field(True, description="noise has the printed factor √d, with `equal` noise (faithful)")

    def idle(self) -> dict[str, str]:
        if self.mode == "certified":
            return dict.fromkeys(("beta", "sensitivity_divisor", "root_dimension"), FAITHFUL)
        found = dict.fromkeys(("trust", "shape", "decay", "floor", "predict", "clip_norm"), CERTIFIED)
        equal = "where mechanism.allocation is 'least_energy': set mechanism.allocation = 'equal'"
        return found if self.allocation != "least_energy" else found | {"root_dimension": equal}


def compose(options: ComponentAdaptive, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    return _faithful(options, facts) if options.mode == "faithful" else _certified(options, facts)


def _certified(options: ComponentAdaptive, facts: PublicFacts) -> Mechanism:
    noise = noise_for(
        options.trust,
        "client",
        options.clip_norm,
        facts,
        facts.expected,
        options.adjacency,
        noise=options.noise_multiplier,
    )
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust=options.trust,
        selector=facts.selector,
        local=LocalSteps(),
        bounder=ScaledClip(options.shape),
        perturber=Scaled(noise.perturber),
        aggregator=noise.aggregator,
        adapter=Movement(
            facts.layout.width,
            options.clip_norm,
            facts.calibrate(options, noise.perturber),
            options.allocation or "least_energy",
            options.decay,
            options.floor,
            options.predict,
        ),
    )


def _faithful(options: ComponentAdaptive, facts: PublicFacts) -> Mechanism:
    sigma0 = options.noise_multiplier
    if sigma0 is None:
        epsilon = facts.target.limit("mechanism.noise_multiplier")
        sigma0 = xue_sigma0(epsilon, facts.participations, facts.target.delta)
    box = PredictedBox(
        facts.train,
        options.beta,
        options.allocation or "equal",
        options.sensitivity_divisor,
        options.root_dimension,
    )
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=facts.selector,
        local=LocalSteps(trace=True),
        bounder=box,
        perturber=WeightedGaussian(PRIVATE_SCALES, options.adjacency),
        aggregator=PlainSum(denominator=None),
        adapter=Steady(options.clip_norm, sigma0),
        claim=Claim("Eq. (7): min over whole α of L·α/(2σ0²) + ln(1/δ)/(α−1)", lambda n, d: xue_epsilon(n, sigma0, d)),
    )


def truncation(run: RunNumbers) -> list[Chart]:
    """Returns parameters before and after truncation (component_adaptive, faithful, with `run.notes`)."""
    before, after = run.notes.get("original"), run.notes.get("truncated")
    if before is None or after is None or not len(before):
        return []
    rounds = run.notes.get("round", np.arange(1, len(before) + 1))
    chosen = np.unique(np.linspace(0, len(before) - 1, min(len(before), 12)).astype(int))
    boxes = tuple(
        Boxes(name, [str(int(rounds[place])) for place in chosen], [first_five(rows[place]) for place in chosen], color)
        for color, (name, rows) in enumerate((("as trained", before), ("truncated", after)))
    )
    note = "Parameters of one client before and after truncation. Private: recorded because run.notes asked for it."
    axes = Axis("round", categories=True), Axis("parameter value")
    return [Chart("truncation", "Original and truncated parameters", note, *axes, boxes, wide=True)]


def component_scales(run: RunNumbers) -> list[Chart]:
    """Returns the noise scales of component_adaptive, one box a tensor of the model."""
    scales = run.knobs.get("scales")
    if scales is None or scales.size < 2:
        return []
    parts = run.components or {"all components": slice(0, scales.size)}
    summaries = [five_numbers(scales[part]) for part in parts.values()]
    note = "Noise of each component relative to the average one, after the last round: made from released models only."
    boxes = Boxes("scale", list(parts), summaries)
    ends = [value for five in summaries for value in five if value > 0]
    axis = Axis("relative scale", log=True, ticks=marks(min(ends), max(ends)) if ends else None)
    return [Chart("scales", "Component scales", note, Axis("component", categories=True), axis, (boxes,))]


FLAW = (
    "The noise on a component is proportional to the client's own predicted weight, so its size tells what it "
    "should hide: a client whose weights are zero sends them without any noise, one with other weights sends noise. "
    "Whoever sees one message, or estimates its variance over a few, knows which it was."
)

SPEC = MechanismSpec(
    ComponentAdaptive,
    compose,
    "client",
    "local",
    "noise follows how far each component moves",
    "Xue et al.",
    flaw=FLAW,
    audit=(
        AuditCase(settings=("run.rounds=3",)),
        AuditCase(
            settings=(
                "run.rounds=3",
                "mechanism.trust=distributed",
                "mechanism.shape=box",
            )
        ),
        AuditCase(
            "faithful",
            (
                "mechanism.noise_multiplier=26",
                "run.rounds=7",
            ),
            trials=200_000,
        ),
    ),
    charts=(
        component_scales,
        truncation,
    ),
    variants=(
        Variant("distributed", ("mechanism.trust=distributed",), "noise is shared out, and the server sees sums"),
        Variant("central", ("mechanism.trust=central",), "a trusted server adds the noise"),
        Variant("predicted", ("mechanism.predict=true",), "updates are bounded around the step that history predicts"),
    ),
)

"""fed_cad: a client's noise reuses part of its last noise, because its updates change little from one to the next.

Zhu, Chang, Liang, Zhu, Xu, "Fed-CAD: Federated Learning with Correlation-aware Adaptive Local Differential
Privacy". Unit client, trust local, adjacency zero_out (or replace).

**Certified.** *Proof.* With ‖u_t‖ ≤ C and ‖u_t − u_{t−1}‖ ≤ D·C (`bound/near.py`), the innovation y_t − r_t·y_{t−1}
of a client's t-th message is a vector of norm ≤ a_t·C plus fresh noise of a_t·σ·C, independent of the past: one
Gaussian of multiplier σ (σ/2 for replace), and all messages are a bijection of all innovations
(`perturb/correlated.py` has the details). D is a public constant, or follows the noisy messages themselves
(`adapt/difference.py`), which is post-processing. So L participations cost exactly L Gaussians, as they would with
fresh noise, whenever they happen: a client that skips rounds goes on from its own last message.

**Faithful.** With a constant `difference` the printed algorithm is that of the proof, and its certified ε is finite, if
much larger than the printed one. With `obsolete` > 0 each client adapts its own D from the private norm of its change:
nothing bounds that, and certified ε is infinite. The claim is a Rényi accountant's for the multiplier σ and the record
sampling rate, as Algorithm 2 asks for; the paper's printed numbers do not follow from it (`docs/mechanisms`).

Where we deviate: D is relative to clip_norm (the paper has C = 1); in certified mode r is at most 1, which the proof
needs when D grows; sums are divided by the expected cohort. Fed-LDP is the special case D = 1.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sordino.account.accountants.accountant import epsilon
from sordino.adapt.difference import ReleasedDifference
from sordino.aggregate.plain import PlainSum
from sordino.bound.near import Near
from sordino.charts import Axis, Chart, RunNumbers, Series
from sordino.events import DpEvent, GaussianDpEvent, PoissonSampledDpEvent, describe
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.spec import CERTIFIED, FAITHFUL, AuditCase, MechanismSpec, MessageAdjacency, Options, Variant
from sordino.perturb.correlated import CorrelatedNoise
from sordino.train.local import LocalSteps

CONSTANT = "where mechanism.obsolete is 0, so that Diff stays as it is: set mechanism.obsolete, too"


class FedCad(Options):
    """Local Gaussian noise that is correlated in time."""

    name: Literal["fed_cad"] = "fed_cad"
    adjacency: MessageAdjacency = "zero_out"
    difference: float = Field(
        0.5, gt=0, le=1, description="Diff (D): how far an update may be from the client's last, over clip_norm"
    )
    obsolete: float = Field(0.0, ge=0, le=1, description="γ: how fast Diff follows what is seen (0: constant)")
    headroom: float = Field(1.25, ge=1, description="Diff over the distance that is seen (certified)")
    difference_stddev: float = Field(
        0.0, ge=0, description="noise on a client's own Diff (faithful; the text's σ_Diff)"
    )

    def idle(self) -> dict[str, str]:
        found = {} if self.obsolete else dict.fromkeys(("headroom", "difference_stddev"), CONSTANT)
        return found | ({"difference_stddev": FAITHFUL} if self.mode == "certified" else {"headroom": CERTIFIED})


def compose(options: FedCad, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    faithful = options.mode == "faithful"
    private = faithful and options.obsolete > 0
    noise = CorrelatedNoise(options.adjacency, private, options.obsolete, options.difference_stddev)
    multiplier = _printed(options, facts) if faithful else facts.calibrate(options, noise)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=Near(private),
        perturber=noise,
        aggregator=PlainSum(None if faithful else facts.expected),
        adapter=ReleasedDifference(
            options.clip_norm,
            multiplier,
            options.difference,
            0.0 if faithful else options.obsolete,
            options.headroom,
        ),
        claim=_claim(multiplier, facts) if faithful else None,
    )


def _claim(multiplier: float, facts: PublicFacts) -> Claim:
    event = _printed_event(multiplier, facts)
    formula = f"Rényi accountant for {describe(event)} a participation (Algorithm 2, line 6)"
    return Claim(formula, lambda times, delta: epsilon({event: times}, delta, "rdp-classic"))


def _printed(options: FedCad, facts: PublicFacts) -> float:
    """Returns σ: the one that is set, or the one with which the claim meets the budget."""
    if options.noise_multiplier is not None:
        return options.noise_multiplier
    return facts.target.least_noise(lambda z: {_printed_event(z, facts): facts.participations}, "rdp-classic")


def _printed_event(multiplier: float, facts: PublicFacts) -> DpEvent:
    """Returns what the paper's accountant is told: σ, and batches at the rate of their size to a client's records."""
    batch = facts.train.batch_size
    rate = 1.0 if batch is None else min(1.0, batch / facts.mean_records)
    return PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier))


def differences(run: RunNumbers) -> list[Chart]:
    """Returns Diff, the distance that was measured, and the correlation of the noise that follows (fed_cad)."""
    lines = [line for line in run.played if "difference" in line.get("knobs", {})]
    if not lines:
        return []
    rounds, diff = run.played_with("difference")
    series = [
        Series("Diff D", rounds, diff, "step", 0),
        Series("noise correlation 1 − D", rounds, [None if d is None else 1 - d for d in diff], "step", 1, dashed=1),
    ]
    gaps = [max(0.0, line["knobs"].get("gap") or 0.0) ** 0.5 for line in lines]
    if any(gaps):
        series.append(Series("distance seen in releases", [line["round"] for line in lines], gaps, color=2))
    note = (
        "Diff is how far an update may move from the client's last one, over the clip norm, in each round. In the long "
        "run a client keeps the share 1 − D of its last noise. What releases show sets the next round's Diff."
    )
    axis = Axis("share of the clip norm", range=(0.0, 1.05 * max(1.0, *gaps)))
    return [Chart("difference", "Diff and correlation by round", note, Axis("round"), axis, tuple(series))]


FLAW = (
    "The correlated noise is sound for a constant Diff, but the printed ε does not belong to the printed σ. Two "
    "updates of norm 1 can be 2 apart, and noise of σ = 0.3 is added to each: a participation alone is two "
    "Gaussians at a distance of 6.7 standard deviations, which are told apart at a glance. The certificate shows "
    "what 30 participations really cost."
)

SPEC = MechanismSpec(
    FedCad,
    compose,
    "client",
    "local",
    "noise that partly repeats a client's last noise",
    "Zhu et al.",
    flaw=FLAW,
    audit=(
        AuditCase(settings=("run.rounds=4",)),
        AuditCase(
            "faithful",
            (
                "mechanism.noise_multiplier=0.3",
                "mechanism.clip_norm=1",
                "mechanism.adjacency=replace",
                "train.batch_size=60",
                "run.rounds=2",
            ),
            records=600,
            printed=2.72,
            trials=500_000,
        ),
    ),
    charts=(differences,),
    variants=(Variant("fresh", ("mechanism.difference=1",), "no memory: fresh noise in every round"),),
)

"""a_dpfl: participants chosen by how typical their labels are, local DP-SGD, and less noise once accuracy stops rising.

Zhao et al. (2021), "Utility Optimization of Federated Learning with Differential Privacy" (A-DPFL). Unit record, trust
local, adjacency add_remove: every message is private by itself, so server and outsider are promised the same.

**Certified.** *Proof.* All that is computed from a client's records is (1) one label histogram with Gaussian noise, of
sensitivity 1; (2) in each round in which it takes part, `steps` local steps: every record enters a batch by a secret
coin of rate q, gradients are clipped one by one to clip_norm, and their sum gets N(0, (z·clip_norm)²), so that a step
is a Poisson-sampled Gaussian of multiplier z given the broadcast model and the steps before; (3) without public
validation data, in every adjustment round a count of right answers with Gaussian noise, of sensitivity 1. The rest is
post-processing: scores and cohorts come from (1), the model from (2), the plateau from public data or from (3). All
clients weigh the same, and who is left in a round does not depend on any record. The z of a round follows earlier
releases, so a privacy filter does the sums: what is certified holds for every path that the decay could have taken, and
a client that cannot pay for the next round is not asked.

**Faithful.** Exact histograms, N(0, (σ·clip_norm)²) on the batch's gradient sum *before* it is clipped as a whole, and
accuracy on clients' own records (or public ones). Nothing bounds a gradient before the noise, and histograms and scores
leak, so certified ε is infinite. The claim is the printed σ ≥ (Δ/ε)·√ln(1.25/δ), which lacks a factor √2 and composes
nothing.

Where the paper leaves a choice open: the score's formula is in `opening/wasserstein.py`; how often noise is adjusted,
and the calibration of the first noise for so many decays, are options below. Batch and sampling rate are the same for
everybody, from the declared mean number of records (`public.records` over `public.population`).

**Without its ideas** (certified). `schedule = "constant"` or `"geometric"` looks at no accuracy: noise is fixed
beforehand, nothing is counted, and the accountant prices the schedule (with the histograms) instead of a filter. That
holds where scores decide once who is asked in all rounds (`best`, nobody vanishes: a client's price is at most the
plan's, which the best pay); else releases would choose how often a client pays, and the filter is needed.
`"geometric"` ends where the expected decays would. `selection = "uniform"` without `refuse_below` asks for no
histograms either, and cohorts are the recipe's; with constant noise that is `local_dp_sgd`.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field

from sordino.account.accountants.target import PrivacyTarget
from sordino.adapt.geometric import Geometric
from sordino.adapt.plateau import Plateau
from sordino.aggregate.plain import PlainSum
from sordino.bound.vouched import AsTrained, NoisedSteps
from sordino.charts import Axis, Chart, RunNumbers, Series
from sordino.errors import RecipeError
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.decay import Decay, side_noise
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.local_dp_sgd import batches
from sordino.mechanisms.spec import CERTIFIED, RAREST, AuditCase, MechanismSpec, Options, Variant
from sordino.opening.histograms import LabelHistograms
from sordino.opening.wasserstein import Metric
from sordino.perturb.steps import RIGHT, AnswerCount, StepNoise
from sordino.select.by_score import ByScore, SelectionRule
from sordino.train.noisy import PrivateSteps

SIDE_SHARE = 0.1
"""Share of the budget's μ² that histograms take, and that counts of right answers take, unless their noise is set."""

UNPROVED = "noise is added before the batch gradient is clipped, and nothing bounds what one record puts into it"
PEEKED = "accuracy on private records steers the noise without any of its own"
"""Why the printed step, and the printed plateau on clients' own records, prove nothing."""


class ADpfl(Options):
    """Typical participants, local DP-SGD, noise that decays on a plateau; `select` says how many take part."""

    name: Literal["a_dpfl"] = "a_dpfl"
    metric: Metric = Field(
        "discrete", description="distance of two labels: 1 if they differ, or steps apart (`ordinal`)"
    )
    selection: SelectionRule = Field(
        "best", description="take the K best scores, or draw K by score, or K of all alike"
    )
    refuse_below: float = Field(0.0, ge=0, lt=1, description="score (0 to 1, average 0.37) below which nobody is asked")
    validation: Literal["auto", "public", "clients"] = Field(
        "auto", description="where accuracy is measured: public split, or clients' own records (noisy, charged)"
    )
    schedule: Literal["plateau", "constant", "geometric"] = Field(
        "plateau", description="noise falls on a plateau, or not at all, or evenly by as much (certified)"
    )
    factor: float = Field(0.7, gt=0, lt=1, description="k: noise is multiplied by it on a plateau")
    threshold: float = Field(0.005, description="α: accuracy that rises by no more than this is a plateau")
    adjust_every: int = Field(4, ge=1, description="rounds between two looks at the accuracy")
    expected_decays: int = Field(
        2, ge=0, le=1000, description="noise is calibrated for this many decays, evenly spread"
    )
    sampling_rate: float | None = Field(
        None,
        ge=RAREST,
        le=1,
        description="chance of a record to enter a local batch (default: batch size over mean records)",
    )
    histogram_noise: float | None = Field(
        None, gt=0, description="noise on a label count (default: a tenth of the budget's μ²)"
    )
    count_noise: float | None = Field(
        None, gt=0, description="noise on a count of right answers (default: a tenth of the budget's μ² over all looks)"
    )

    def idle(self) -> dict[str, str]:
        if self.mode == "faithful":
            return dict.fromkeys(("schedule", "histogram_noise", "count_noise"), CERTIFIED)
        found: dict[str, str] = {}
        if not _ranks(self):
            why = "where mechanism.selection is 'uniform': set mechanism.selection = 'best' or 'weighted'"
            found |= dict.fromkeys(("metric", "histogram_noise"), why)
        if self.schedule != "plateau":
            why = f"where mechanism.schedule is '{self.schedule}': set mechanism.schedule = 'plateau'"
            found |= dict.fromkeys(("validation", "threshold", "adjust_every", "count_noise"), why)
        elif self.validation == "public":
            found["count_noise"] = "where mechanism.validation is 'public': set mechanism.validation = 'clients'"
        if self.schedule == "constant":
            why = "where mechanism.schedule is 'constant': set mechanism.schedule = 'plateau' or 'geometric'"
            found |= dict.fromkeys(("factor", "expected_decays"), why)
        return found


def compose(options: ADpfl, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    _require(options, facts)
    faithful = options.mode == "faithful"
    ranked, looks = faithful or _ranks(options), faithful or options.schedule == "plateau"
    rate, steps = batches(options.sampling_rate, facts)
    batch, count = rate * facts.mean_records, _count(options, facts) if looks else None
    histogram = _histogram_noise(options, facts) if ranked and not faithful else None
    decay = Decay(facts.rounds, rate, steps, options.factor, options.expected_decays, histogram, count)
    adapter = (_plateau if looks else _schedule)(options, facts, decay)
    every, first = None if count is None else count.every, adapter.start().noise_multiplier
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="record",
        trust="local",
        selector=_selector(options, facts) if ranked else facts.selector,
        local=PrivateSteps(None, steps, None, "noise_then_clip", every)
        if faithful
        else PrivateSteps(rate, steps, batch, "clip_then_noise", every),
        bounder=AsTrained() if faithful else NoisedSteps(),
        perturber=StepNoise(
            rate, steps, facts.train.learning_rate / batch, count, _unproved(count) if faithful else None
        ),
        aggregator=PlainSum(None),
        adapter=adapter,
        opening=LabelHistograms(facts.classes, histogram, options.metric) if ranked else None,
        claim=_claim(first) if faithful else None,
        adaptive=looks and not faithful,
        planned=decay.plan(first) if looks else None,
    )


def _plateau(options: ADpfl, facts: PublicFacts, decay: Decay) -> Plateau:
    """Returns noise that falls whenever accuracy stops rising."""
    first = options.noise_multiplier or (
        _printed_scale(facts.target) if options.mode == "faithful" else decay.least_noise(facts.target)
    )
    side = None if decay.count is None else RIGHT
    return Plateau(options.clip_norm, first, options.factor, options.threshold, options.adjust_every, side)


def _schedule(options: ADpfl, facts: PublicFacts, decay: Decay) -> Geometric:
    """Returns noise that is fixed beforehand, round by round."""
    falls = options.expected_decays if options.schedule == "geometric" else 0
    theta = options.factor ** (2 * falls / max(1, facts.rounds - 1))
    # who is typical is asked every time
    most = facts.rounds if _ranks(options) else min(facts.participations, facts.rounds)
    first = options.noise_multiplier or decay.least_scheduled(facts.target, theta, most)
    return Geometric(options.clip_norm, first, theta, facts.rounds)


def _ranks(options: ADpfl) -> bool:
    """Returns whether anything depends on label histograms."""
    return options.selection != "uniform" or options.refuse_below > 0


def _selector(options: ADpfl, facts: PublicFacts) -> ByScore:
    return ByScore(max(1, round(facts.expected)), options.refuse_below, options.selection)


def _histogram_noise(options: ADpfl, facts: PublicFacts) -> float:
    return options.histogram_noise or side_noise(facts.target, SIDE_SHARE)


def _require(options: ADpfl, facts: PublicFacts) -> None:
    if facts.classes < 2:
        raise RecipeError("mechanism a_dpfl ranks clients by their labels: use data with classes, or another mechanism")
    if options.validation == "public" and not facts.public:
        raise RecipeError("mechanism.validation is 'public' and no record is: set data.public_fraction, e.g. 0.05")
    if options.count_noise is not None and options.validation == "auto" and facts.public:
        raise RecipeError(
            "mechanism.count_noise has no effect where accuracy is measured on public records: set "
            "mechanism.validation = 'clients', or leave data.public_fraction out"
        )
    if options.mode == "certified" and options.schedule != "plateau" and _ranks(options):
        _require_same_for_all(options, facts)
    if options.noise_multiplier is None:
        facts.target.limit("mechanism.noise_multiplier")


def _require_same_for_all(options: ADpfl, facts: PublicFacts) -> None:
    """Refuses a fixed schedule where releases decide not only whether, but how often a client pays.

    Raises:
        RecipeError: the dearest path that a client could have taken need not be one that anybody took.
    """
    drawn = "mechanism.selection draws clients by what they released" if options.selection != "best" else ""
    gone = "clients may vanish or join late (dropout)" if facts.vanishing or facts.late else ""
    if why := drawn or gone:
        raise RecipeError(
            f"{why}, and no filter holds that with mechanism.schedule '{options.schedule}': set mechanism.schedule = "
            "'plateau', or mechanism.selection = 'best' with nobody missing, or 'uniform' without refuse_below"
        )


def _count(options: ADpfl, facts: PublicFacts) -> AnswerCount | None:
    """Returns how clients count right answers, or None where accuracy is measured on public records."""
    if options.validation == "public" or (options.validation == "auto" and facts.public):
        return None
    records, every = facts.mean_records, options.adjust_every
    if options.mode == "faithful":
        return AnswerCount(0.0, every, records)
    looks = max(1, facts.rounds // every)
    return AnswerCount(options.count_noise or side_noise(facts.target, SIDE_SHARE, looks), every, records)


def _unproved(count: AnswerCount | None) -> str:
    return UNPROVED if count is None else f"{UNPROVED}; {PEEKED}"


def _printed_scale(target: PrivacyTarget) -> float:
    """Returns the σ for which the paper's formula claims the budget (§3.1)."""
    epsilon = target.limit("mechanism.noise_multiplier")
    return math.sqrt(math.log(1.25 / target.delta)) / epsilon


def _claim(multiplier: float) -> Claim:
    return Claim(
        "σ ≥ (Δ/ε)·√ln(1.25/δ) for a single release of the first noise scale; no composition is stated",
        lambda participations, delta: math.sqrt(math.log(1.25 / delta)) / multiplier,
    )


def selection(run: RunNumbers) -> list[Chart]:
    """Returns how often each client took part against how unusual its labels are (a_dpfl)."""
    scores, times = run.knobs.get("scores"), run.participations
    if scores is None or scores.size != times.size or not len(run.played):
        return []
    chosen = np.unique(np.linspace(0, scores.size - 1, min(scores.size, 2000)).astype(int))
    far = -np.log(np.clip(scores[chosen], 1e-12, None))
    share = np.minimum(1.0, times[chosen] / len(run.played))
    words = [f"client {c}: distance {f:.2f}, {n} rounds" for c, f, n in zip(chosen, far, times[chosen], strict=True)]
    dots = Series("clients", [float(x) for x in far], [float(y) for y in share], "dots", 3, hover=words)
    note = (
        "Share of rounds in which each client was selected and sent something, against how far its labels are from "
        "everybody's (Wasserstein distance, on average 1)."
    )
    axes = Axis("heterogeneity of labels"), Axis("rounds", percent=True, range=(-0.02, 1.05))
    return [Chart("selection", "Participation against heterogeneity", note, *axes, (dots,))]


FLAW = (
    "Noise is added to the batch's gradient first and the result is clipped afterwards. Clipping bounds what is "
    "sent, not what one record changes: a record with a large gradient drowns the noise, and clipping then only "
    "scales both down together. The direction of the message gives the record away. (The label histograms, which "
    "are sent exactly, would do so too; they were left out of this attack.)"
)

SPEC = MechanismSpec(
    ADpfl,
    compose,
    "record",
    "local",
    "typical clients first, local DP-SGD, less noise on a plateau",
    paper="Zhao et al. (2021), Utility Optimization of Federated Learning with Differential Privacy",
    flaw=FLAW,
    audit=(
        AuditCase(settings=("run.rounds=2",), trials=4_000_000),
        AuditCase(
            "faithful",
            (
                "mechanism.noise_multiplier=1",
                "mechanism.clip_norm=4",
            ),
            trials=200_000,
        ),
    ),
    charts=(selection,),
    variants=(
        Variant("uniform", ("mechanism.selection=uniform",), "cohorts drawn alike, no histograms"),
        Variant("constant", ("mechanism.schedule=constant",), "noise stays as it is, no accuracy is looked at"),
        Variant("geometric", ("mechanism.schedule=geometric",), "noise falls evenly, no accuracy is looked at"),
    ),
)

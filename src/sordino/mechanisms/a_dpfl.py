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
everybody, from the mean number of records, which is taken to be public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.optimize import brentq

from sordino.account.filter import filter_for
from sordino.account.gaussian import separation_for
from sordino.adapt.plateau import Plateau
from sordino.aggregate.plain import PlainSum
from sordino.bound.vouched import AsTrained, NoisedSteps
from sordino.errors import RecipeError
from sordino.events import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.setting import Entry, Options, Setting
from sordino.opening.histograms import LabelHistograms
from sordino.opening.wasserstein import Metric
from sordino.perturb.steps import RIGHT, Count, StepNoise, step_event
from sordino.select.nearest import Nearest
from sordino.train.noisy import PrivateSteps

SIDE_SHARE = 0.1
"""Share of the budget's μ² that histograms take, and that counts of right answers take, unless their noise is set."""

UNPROVED = "noise is added before the batch gradient is clipped, and nothing bounds what one record puts into it"
"""Why the printed local step proves nothing."""


class ADpfl(Options):
    """Typical participants, local DP-SGD, noise that decays on a plateau; `select` says how many take part."""

    name: Literal["a_dpfl"] = "a_dpfl"
    metric: Metric = Field(
        "discrete", description="distance of two labels: 1 if they differ, or steps apart (`ordinal`)"
    )
    selection: Literal["best", "weighted"] = Field("best", description="take the K best scores, or draw K by score")
    refuse_below: float = Field(0.0, ge=0, lt=1, description="score (0 to 1, average 0.37) below which nobody is asked")
    validation: Literal["auto", "public", "clients"] = Field(
        "auto", description="where accuracy is measured: public split, or clients' own records (noisy, charged)"
    )
    factor: float = Field(0.7, gt=0, lt=1, description="k: noise is multiplied by it on a plateau")
    threshold: float = Field(0.005, description="α: accuracy that rises by no more than this is a plateau")
    adjust_every: int = Field(4, ge=1, description="rounds between two looks at the accuracy")
    expected_decays: int = Field(2, ge=0, description="noise is calibrated for this many decays, evenly spread")
    sampling_rate: float | None = Field(
        None,
        gt=0,
        le=1,
        description="chance of a record to enter a local batch (default: batch size over mean records)",
    )
    histogram_noise: float | None = Field(
        None, gt=0, description="noise on a label count (default: a tenth of the budget's μ²)"
    )
    count_noise: float | None = Field(
        None, gt=0, description="noise on a count of right answers (default: a tenth of the budget's μ² over all looks)"
    )


@dataclass(frozen=True)
class Steps:
    """What a participant does in a round."""

    batch: float
    rate: float
    count: int

    @classmethod
    def of(cls, options: ADpfl, setting: Setting) -> Steps:
        """Reads them from the training settings; data sizes enter through their public mean alone."""
        records = float(setting.sizes.mean())
        rate = options.sampling_rate or min(1.0, (setting.train.batch_size or records) / records)
        count = setting.train.steps or (setting.train.epochs or 1) * math.ceil(1 / rate)
        return cls(rate * records, rate, count)


def compose(options: ADpfl, setting: Setting) -> Mechanism:
    """Returns the composition."""
    _require(options, setting)
    faithful, steps, count = options.mode == "faithful", Steps.of(options, setting), _count(options, setting)
    histogram = None if faithful else options.histogram_noise or 1 / math.sqrt(SIDE_SHARE * _capacity(setting))
    plan = partial(_plan, options, setting.rounds, steps, histogram, count)
    multiplier = options.noise_multiplier or (printed_scale(setting) if faithful else _least_noise(setting, plan))
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="record",
        trust="local",
        selector=Nearest(max(1, round(setting.expected)), options.refuse_below, options.selection == "weighted"),
        local=PrivateSteps(
            None if faithful else steps.rate,
            steps.count,
            None if faithful else steps.batch,
            "noise_then_clip" if faithful else "clip_then_noise",
            count.every if count is not None else None,
        ),
        bounder=AsTrained() if faithful else NoisedSteps(),
        perturber=StepNoise(
            steps.rate,
            steps.count,
            setting.train.learning_rate / steps.batch,
            count,
            UNPROVED if faithful else None,
        ),
        aggregator=PlainSum(None),
        adapter=Plateau(
            options.clip_norm,
            multiplier,
            options.factor,
            options.threshold,
            options.adjust_every,
            RIGHT if count is not None else None,
        ),
        opening=LabelHistograms(setting.classes, histogram, options.metric),
        claim=_claim(multiplier) if faithful else None,
        adaptive=not faithful,
        planned=plan(multiplier),
    )


def _require(options: ADpfl, setting: Setting) -> None:
    if setting.classes < 2:
        raise RecipeError("mechanism a_dpfl ranks clients by their labels: use data with classes, or another mechanism")
    if options.validation == "public" and not setting.public:
        raise RecipeError("mechanism.validation is 'public' and no record is: set data.public_fraction, e.g. 0.05")
    if setting.budget.epsilon is None and options.noise_multiplier is None:
        raise RecipeError("mechanism.noise_multiplier and budget.epsilon are both missing: set one of them")


def _count(options: ADpfl, setting: Setting) -> Count | None:
    """Returns how clients count right answers, or None where accuracy is measured on public records."""
    if options.validation == "public" or (options.validation == "auto" and setting.public):
        return None
    records, every = float(setting.sizes.mean()), options.adjust_every
    if options.mode == "faithful":
        return Count(0.0, every, records)
    looks = max(1, setting.rounds // every)
    noise = options.count_noise or math.sqrt(looks / (SIDE_SHARE * _capacity(setting)))
    return Count(noise, every, records)


def _capacity(setting: Setting) -> float:
    """Returns the budget's μ²: what a filter of plain Gaussians would admit in all."""
    if setting.budget.epsilon is None:
        raise RecipeError("budget.epsilon is missing: set it, or mechanism.histogram_noise and mechanism.count_noise")
    return separation_for(setting.budget.epsilon, setting.budget.delta) ** 2


def _plan(
    options: ADpfl, rounds: int, steps: Steps, histogram: float | None, count: Count | None, multiplier: float
) -> DpEvent:
    """Returns all that is released of a client that takes part in every round, if decays come evenly spread.

    The K best are the same in every round, so nothing less can be expected.
    """
    events: list[DpEvent] = [] if histogram is None else [GaussianDpEvent(histogram)]
    if count is not None and count.noise_multiplier > 0:
        events.append(SelfComposedDpEvent(GaussianDpEvent(count.noise_multiplier), rounds // count.every))
    for level, part in enumerate(np.array_split(np.arange(rounds), options.expected_decays + 1)):
        events.append(step_event(multiplier * options.factor**level, steps.rate, steps.count * len(part)))
    return ComposedDpEvent(tuple(events))


def _least_noise(setting: Setting, plan: Callable[[float], DpEvent]) -> float:
    """Returns the least first noise multiplier whose plan the run's filter admits."""
    epsilon, delta = setting.budget.epsilon or 0.0, setting.budget.delta

    def excess(log_z: float) -> float:
        planned = plan(math.exp(log_z))
        chosen = filter_for(epsilon, delta, planned, "add_remove")
        share = chosen.cost(planned, "add_remove") / max(chosen.capacity, 1e-300)
        return math.log(share) if math.isfinite(share) else 700.0

    low, high = math.log(1e-2), math.log(1e6)
    if excess(high) > 0:
        raise RecipeError(
            "mechanism.histogram_noise and mechanism.count_noise leave nothing of budget.epsilon: raise them, or leave "
            "them out"
        )
    root = float(brentq(excess, low, high, xtol=1e-9))
    while excess(root) > 0:
        root += 1e-9
    return math.exp(root)


def printed_scale(setting: Setting) -> float:
    """Returns the σ for which the paper's formula claims the budget (§3.1)."""
    assert setting.budget.epsilon is not None
    return math.sqrt(math.log(1.25 / setting.budget.delta)) / setting.budget.epsilon


def _claim(multiplier: float) -> Claim:
    return Claim(
        "σ ≥ (Δ/ε)·√ln(1.25/δ) for a single release of the first noise scale; no composition is stated",
        lambda participations, delta: math.sqrt(math.log(1.25 / delta)) / multiplier,
    )


ENTRY = Entry(
    ADpfl,
    compose,
    "record",
    "local",
    "typical clients first, local DP-SGD, less noise on a plateau",
    paper="A-DPFL: adaptive differentially private federated learning",
)

"""Which mechanism, with which settings, and whether it can work: from what is public before anything is trained.

Noise comes from the planner (`account/plan`), the mechanism from `mechanisms/choice.py`. The rule for rounds: noise
that keeps a budget grows like √rounds, so what all rounds together tell does not depend on their number; as many are
taken as leave the noise of one round no longer than its longest possible update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sordino.account.plan.planner import solve
from sordino.account.plan.scenario import Scenario
from sordino.advise.cautions import cautions
from sordino.advise.outlook import expected
from sordino.errors import AccountingError
from sordino.mechanisms.choice import Choice, Known, choose
from sordino.printable import counted
from sordino.types import Trust, Unit

FEWEST_ROUNDS, MOST_ROUNDS = 5, 100
"""Between these, rounds are chosen."""
HOPELESS = 0.2
"""Below this ratio advice says that a run cannot work: a rule of thumb, drawn on one data set (docs/advice.md)."""
CLIP_NORM = 0.5
"""What to begin with: the noise follows it, so that only its ratio to real updates counts."""
GRADIENT_STEP, UPDATE_STEP = 4.0, 1.0
"""The server's step on a mean gradient, and on a mean of local updates: what the mechanisms take by themselves.
Where a number is to be predicted, the first is divided by the number of features (`runs/setup.py`)."""


@dataclass(frozen=True)
class Situation:
    """What is known before anything is trained; all of it is taken to be public.

    **Edge cases**: `unit` None asks which unit to protect: clients where that can work, else records.
    """

    clients: int
    records: int
    parameters: int
    epsilon: float
    delta: float = 1e-5
    trust: Trust = "distributed"
    unit: Unit | None = None
    dropout: float = 0.0
    regression: int = 0
    """Features of a record where a number is to be predicted from them; 0 where classes are."""
    smallest: int = 1
    """Fewest parameters of a model that looks at every feature: nobody is told to train a smaller one."""
    by_features: Mapping[str, Any] = field(default_factory=dict)
    """Settings that follow from a recipe's features (`by_features.py`), by name: they take the place of usual ones."""

    def __post_init__(self) -> None:
        if self.clients < 1 or self.records < self.clients:
            raise AccountingError(
                f"{self.clients} clients with {self.records} records in all: there must be at least one client, and a "
                "record for each"
            )

    def scenario(self, unit: Unit, rounds: int) -> Scenario:
        """Returns the plan of a run in which everybody takes part in every round, with all records."""
        return Scenario(
            population=self.clients,
            delta=self.delta,
            cohort=self.clients,
            rounds=rounds,
            epsilon=self.epsilon,
            dropout=self.dropout,
            clip_norm=CLIP_NORM,
            unit=unit,
            observer="outsider" if self.trust == "central" else "server",
            trust=self.trust,
            parameters=self.parameters,
            batch=max(1, self.records // self.clients) if unit == "record" else 1,
        )


@dataclass(frozen=True)
class Advice:
    """What to begin with, what to expect, and why.

    **Formal guarantees**: a function of the situation alone. Noise is what a run with these settings will have.
    """

    works: bool
    """Whether the noise of a round is no longer than its longest possible update."""
    mechanism: str
    unit: Unit
    trust: Trust
    rounds: int
    clip_norm: float
    server_learning_rate: float
    noise_multiplier: float
    stddev: float
    """Noise on each coordinate of the released mean (of a step with learning rate 1 where clients take the steps)."""
    signal_to_noise: float
    why: tuple[str, ...]
    settings: Mapping[str, object]
    """All of it as settings of a recipe, by name."""

    @property
    def expected(self) -> str:
        """Noise and signal of a round, in words."""
        return expected(self.stddev, self.signal_to_noise, self.rounds)


def advise(known: Situation) -> Advice:
    """Returns what to begin with; where it cannot work, the first sentence says so, and the next ones what would."""
    unit = known.unit or _unit(known)
    plan = planned(known, unit)
    picked = choose(
        Known(
            unit,
            known.trust,
            known.clients,
            plan.rounds or 1,
            known.parameters,
            known.epsilon,
            known.delta,
            known.dropout,
        )
    )
    if known.by_features:
        return _with_features(known, unit, plan, picked)
    step = GRADIENT_STEP / (known.regression or 1) if unit == "record" and known.trust != "local" else UPDATE_STEP
    works = plan.signal_to_noise >= 1
    settings: dict[str, object] = {"mechanism.name": picked.mechanism, "mechanism.clip_norm": CLIP_NORM}
    settings |= {f"mechanism.{name}": value for name, value in picked.settings.items()}
    if unit == "record" and known.trust == "local":
        settings |= {"mechanism.sampling_rate": 1.0, "train.steps": 1}
    settings |= {"server.learning_rate": step, "run.rounds": plan.rounds}
    settings |= {"budget.epsilon": known.epsilon, "budget.delta": known.delta}
    return Advice(
        works=works,
        mechanism=picked.mechanism,
        unit=unit,
        trust=known.trust,
        rounds=plan.rounds or 1,
        clip_norm=CLIP_NORM,
        server_learning_rate=step,
        noise_multiplier=plan.noise_multiplier or 0.0,
        stddev=plan.stddev,
        signal_to_noise=plan.signal_to_noise,
        why=_why(known, unit, plan, picked),
        settings=settings,
    )


def _with_features(known: Situation, unit: Unit, plan: Scenario, picked: Choice) -> Advice:
    """Returns the advice whose step follows from features of norm 1; `plan` still says whether it can work."""
    chosen = known.by_features
    rounds, clip_norm = int(chosen.get("run.rounds", MOST_ROUNDS)), float(chosen.get("mechanism.clip_norm", CLIP_NORM))
    played = solve(replace(known.scenario(unit, rounds), clip_norm=clip_norm)).scenario
    spent = sum(float(chosen.get(f"opening.{name}", 0)) ** 2 for name in ("feature_mean", "channel_moment"))
    left = math.sqrt(1 - spent)
    settings = {"mechanism.name": picked.mechanism} | {f"mechanism.{k}": v for k, v in picked.settings.items()}
    return Advice(
        works=plan.signal_to_noise >= 1,
        mechanism=picked.mechanism,
        unit=unit,
        trust=known.trust,
        rounds=rounds,
        clip_norm=clip_norm,
        server_learning_rate=float(chosen["server.path"]) / (rounds * clip_norm),
        noise_multiplier=(played.noise_multiplier or 0.0) / left,
        stddev=played.stddev / left,
        signal_to_noise=played.signal_to_noise * left,
        why=(*_why(known, unit, plan, picked), "Rows have norm 1, and what the recipe leaves open follows from that."),
        settings={**settings, **chosen, "budget.epsilon": known.epsilon, "budget.delta": known.delta},
    )


def _why(known: Situation, unit: Unit, plan: Scenario, picked: Choice) -> tuple[str, ...]:
    works = plan.signal_to_noise >= 1
    return (
        *((_fine(plan),) if works else (_noisy(plan), *_remedies(known, plan))),
        *picked.why,
        *map(_sentence, cautions(unit, known.clients, known.records, known.epsilon, known.delta)),
    )


def planned(known: Situation, unit: Unit) -> Scenario:
    """Returns the calibrated plan, with as many rounds as leave one round's noise no longer than its update."""
    once = solve(known.scenario(unit, 1)).scenario.signal_to_noise
    rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, math.floor(once**2)))
    plan = solve(known.scenario(unit, rounds)).scenario
    while plan.signal_to_noise < 1 and rounds > FEWEST_ROUNDS:  # the last digit of the square root
        rounds -= 1
        plan = solve(known.scenario(unit, rounds)).scenario
    return plan


def _unit(known: Situation) -> Unit:
    return "client" if planned(known, "client").signal_to_noise >= 1 else "record"


def _units(plan: Scenario) -> str:
    clients = counted(plan.population or 0, "client")
    return f"{clients} as units" if plan.unit == "client" else f"{clients}, records as units,"


def _fine(plan: Scenario) -> str:
    return (
        f"{_units(plan)} at ε = {plan.epsilon:g}: with {plan.rounds} rounds the longest possible update of a round is "
        f"{plan.signal_to_noise:.3g} × its noise over {plan.parameters:,} parameters, so that a model can be learned."
    )


def _noisy(plan: Scenario) -> str:
    verdict = "cannot work" if plan.signal_to_noise < HOPELESS else "will cost much accuracy"
    return (
        f"{_units(plan)} at ε = {plan.epsilon:g}: this {verdict}, as the noise of a round is "
        f"{1 / plan.signal_to_noise:.3g} × the longest possible signal even with {plan.rounds} rounds."
    )


def _remedies(known: Situation, plan: Scenario) -> list[str]:
    """Returns what would make the noise of a round as long as the longest update, one change at a time."""
    ratio, told = plan.signal_to_noise, []
    if plan.unit == "client" and known.records > known.clients:
        other = planned(known, "record")
        if other.signal_to_noise > ratio:
            told.append(
                f"Protect records (--unit record): signal to noise is {other.signal_to_noise:.3g} with "
                f"{other.rounds} rounds."
            )
    if known.trust == "local":
        told.append(
            f"Let a secure sum hide single messages (--trust distributed): the ratio is √{known.clients} times better."
        )
    enough = solve(replace(plan, epsilon=None, noise_multiplier=(plan.noise_multiplier or 0.0) * ratio))
    told.append(f"Raise ε to {_up(enough.epsilon)}.")
    if plan.audible >= known.smallest:
        told.append(f"Train a smaller model: {plan.audible:,} parameters.")
    more = ratio**2 if known.trust == "local" else ratio
    told.append(f"Find more clients that hold as many records each: {math.ceil(known.clients / more):,}.")
    return told


def _sentence(caution: str) -> str:
    """Returns a caution as a sentence; one that begins with the name of a setting leaves it as it is."""
    first = caution if "." in caution.split()[0] else f"{caution[0].upper()}{caution[1:]}"
    return f"{first}."


def _up(value: float) -> str:
    """Returns the number with three digits, rounded up: what is called enough must be enough."""
    digits = 2 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10**digits) / 10**digits:g}"

"""Zhao et al. (2021), §4.3: whether refusing participants of a low score protects from poisoning.

The paper says so and plays no attack. This is one, declared before anything was run: a third of the participants is
hostile, and is scored as everybody is, by the labels that it tells.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from papers.cited import A_DPFL
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import UNBOUND, ExperimentRunner
from papers.printed_line import PrintedLine, ahead_by, statement
from papers.tasks import rounded
from sordino.data.client_data import ClientData
from sordino.data.federation import Federation
from sordino.errors import SordinoError, SordinoWarning
from sordino.mechanism import Local
from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.runs.setup import assemble, load
from sordino.stages import Update
from sordino.terms import Terms, Turn
from sordino.train.trainer import Trainer

ATTACKS = ("nobody is hostile", "labels are flipped", "all labels are 0", "messages are multiplied by −5")
HOSTILE, FACTOR, THRESHOLD = 20, -5.0, 0.3
"""Of 60; e⁻¹ = 0.37 is an average score, so that 0.3 is below average whatever the data."""
LEARNT = 0.2
"""Ten classes: below this nothing to speak of was learnt, and nothing was protected."""
SCENE = [
    "data.name=digits", "model.name=mlp", "partition.clients=60", "partition.kind=label_skew", "partition.share=0.8",
    "partition.share_min=0.0", "select.kind=fixed", "select.size=20", "train.learning_rate=0.5", "train.epochs=5",
    "train.batch_size=20", "mechanism.name=a_dpfl", "mechanism.mode=faithful", "mechanism.clip_norm=4.0",
    "mechanism.noise_multiplier=0.1", "mechanism.threshold=0.001", "mechanism.adjust_every=1",
    "mechanism.validation=clients", UNBOUND,
]  # fmt: skip
ALIKE = "all alike"
RULES = {
    ALIKE: ["mechanism.selection=uniform"],
    "those below 0.3 refused": ["mechanism.selection=uniform", f"mechanism.refuse_below={THRESHOLD}"],
    "the K best": ["mechanism.selection=best"],
}
"""Who takes part: whoever is drawn, whoever is drawn and not refused, and the K best, as printed."""


@dataclass(frozen=True)
class Malicious:
    """Local work in which the first clients multiply what they upload."""

    honest: Local
    hostile: int
    factor: float

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        """Returns one update a client."""
        update = self.honest.train(trainer, turn, data)
        wrong = torch.from_numpy(update.clients < self.hostile)[:, None]
        return replace(update, rows=update.rows * torch.where(wrong, self.factor, 1.0))


def relabelled(federation: Federation, hostile: int, attack: str) -> Federation:
    """Returns the federation whose first clients hold wrong labels, where the attack is one on labels."""
    labels = federation.train_y.clone()
    _, records = federation.partition.indices(np.arange(hostile))
    if attack == ATTACKS[1]:
        labels[records] = federation.classes - 1 - labels[records]
    elif attack == ATTACKS[2]:
        labels[records] = 0
    return replace(federation, train_y=labels)


def poisoned(recipe: Recipe, place: Path, arguments: tuple[int, ...]) -> dict[str, Any]:
    """Measures accuracy under an attack, given by its place, and which share of either side scores below 0.3."""
    attack = ATTACKS[arguments[0]]
    hostile = HOSTILE if attack != ATTACKS[0] else 0
    federation = relabelled(load(recipe), hostile, attack)
    context = assemble(recipe, federation=federation)
    mechanism = context.mechanism
    if mechanism.opening is None:
        raise SordinoError("nobody is scored: mechanism.name must be a_dpfl, faithful")
    told = mechanism.opening.tell(
        federation.gather(np.arange(federation.population)),
        Turn(Terms(0, context.weights, mechanism.adapter.start()), context.randomness),
    )
    low = mechanism.opening.conclude(told)["scores"].numpy() < THRESHOLD
    if attack == ATTACKS[3]:
        mechanism = replace(mechanism, local=Malicious(mechanism.local, hostile, FACTOR))
    shutil.rmtree(place, ignore_errors=True)  # what was cut off begins anew
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SordinoWarning)  # that a poisoned model is of no use
        outcome = run(recipe, federation=federation, mechanism=mechanism, out=place, progress=False)
    shares = {"hostile": low[:hostile].mean() if hostile else 0.0, "honest": low[hostile:].mean()}
    return {"accuracy": outcome.accuracy} | {name: rounded(float(share), 4) for name, share in shares.items()}


def refusal(runner: ExperimentRunner) -> ExperimentResult:
    """Every attack under every rule; quick: one seed, 5 of 30 rounds."""
    rounds = runner.size(30, 5)
    scene = [*SCENE, f"run.rounds={rounds}", f"run.evaluate_every={rounds}"]
    peace, *attacked = (
        {name: runner.measure(poisoned, [*scene, *rule], number) for name, rule in RULES.items()}
        for number in range(len(ATTACKS))
    )
    lines = [line for attack, found in zip(ATTACKS[1:], attacked, strict=True) for line in judged(attack, found)]
    return ExperimentResult(tuple(lines), remarks=(f"Without hostile participants: {_told(_ends(peace))}.",))


def judged(attack: str, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[PrintedLine]:
    """Judges who is refused, and what that does to accuracy, over the seeds."""
    ends = _ends(found)
    hostile, honest = (float(np.mean([one[side] for one in found[ALIKE]])) for side in ("hostile", "honest"))
    told = f"{100 * hostile:.0f} % of the hostile and {100 * honest:.0f} % of the others score below {THRESHOLD:g}"
    holds = hostile > 0.9 and honest < 0.1
    lines = [statement(f"{attack}: who is refused", "adversaries", told, holds, "" if holds else UNSEEN)]
    learnt = max(float(end.mean()) for end in ends.values()) >= LEARNT
    for name in [name for name in ends if name != ALIKE]:
        if not learnt:
            lines.append(
                statement(f"{attack}: {name}", "protects", _told(ends), False, "nothing is learnt by any rule")
            )
            continue
        lead = ends[name] - ends[ALIKE]
        spread = float(lead.std(ddof=1)) if len(lead) > 1 else 0.0
        line = ahead_by(f"{attack}: {name}", "protects", _told(ends), float(lead.mean()), spread)
        lines.append(replace(line, why=NO_BETTER) if line.status == "differs" else line)
    return lines


def _ends(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, np.ndarray]:
    """Returns the accuracies of all seeds, by rule."""
    return {name: np.array([one["accuracy"] for one in seeds]) for name, seeds in found.items()}


def _told(ends: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {100 * end.mean():.1f} %" for name, end in ends.items())


NO_BETTER = "whoever is refused, the rest learn no more than where everybody is asked alike"
UNSEEN = "the score looks at labels, which an adversary tells as it likes, and never at what is uploaded"
CHOICES = (
    "The paper states no attack, no data, no threshold and no share of adversaries: digits of scikit-learn, 60 "
    "participants, 20 of them hostile, 20 asked in a round, 30 rounds, five local passes with η = 0.5, labels skewed "
    "by 0 to 80 %.",
    "Refused is who scores below 0.3, where e⁻¹ = 0.37 is an average score; or, as in Algorithm 2, who is not among "
    "the K best.",
    "σ is 0.1 in the place of 1, so that noise is not what decides.",
)
EXPERIMENTS = (
    Experiment(
        "adpfl-refusal", A_DPFL, "§4.3", "Refusing suspected poisoners", refusal, choices=CHOICES, seeds=5,
        shorter="one seed, 5 of 30 rounds",
    ),
)  # fmt: skip

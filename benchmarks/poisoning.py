"""Selection and refusal under label skew and under poisoning: a_dpfl against its variants and plain local DP-SGD.

    python benchmarks/poisoning.py --out benchmarks/poisoning.json
    python benchmarks/poisoning.py --out benchmarks/poisoning.json --table     # play nothing

A share of the clients is hostile: it trains on flipped labels (y becomes classes − 1 − y), or multiplies what it sends
by a factor, noise included. Everything else is as in `sordino compare`: the same people, seeds and certified ε, and
before anybody competes everybody plays the same grid on records drawn from a public law, without an attack, and
takes its best.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy import stats

from sordino.data.federation import Federation
from sordino.mechanism import Perturber
from sordino.perturb.price import realised
from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.runs.setup import assemble, load
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.tune.stand_in import SYNTHETIC, stand_in

STAGE = (
    "partition.clients=60",
    "partition.kind=label_skew",
    "partition.share=0.8",
    "partition.share_min=0.0",
    "select.kind=fixed",
    "select.size=20",
    "train.learning_rate=0.5",
    "train.epochs=1",
    "budget.epsilon=8",
    "run.rounds=10",
    "run.evaluate_every=10",
)
PLAIN = "local_dp_sgd"
CONTENDERS = {
    "a_dpfl": ("mechanism.name=a_dpfl",),
    "a_dpfl, refusing": ("mechanism.name=a_dpfl", "mechanism.refuse_below=0.3"),
    "a_dpfl-uniform": ("mechanism.name=a_dpfl", "mechanism.selection=uniform"),
    "a_dpfl-constant": ("mechanism.name=a_dpfl", "mechanism.schedule=constant"),
    "a_dpfl-geometric": ("mechanism.name=a_dpfl", "mechanism.schedule=geometric"),
    PLAIN: ("mechanism.name=local_dp_sgd",),
}
SCHEDULES = ("a_dpfl-constant", "a_dpfl-geometric")
"""Played without an attack alone: they differ in noise, not in who is asked."""
ATTACKS = ("none 0", "flip 0.1", "flip 0.3", "scale 0.1", "scale 0.3")
FACTOR = -5.0
GRID = tuple(
    (f"mechanism.clip_norm={clip}", f"server.learning_rate={step}") for clip in (0.3, 1, 3) for step in (0.5, 1, 2, 4)
)
TUNED = "tuned"
"""The settings that were chosen for each contender, beside the scores under each attack."""


@dataclass(frozen=True)
class Scaling(Perturber):
    """Hostile clients multiply their messages."""

    honest: Perturber
    hostile: int
    factor: float

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return self.honest.refuses(bound)

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return self.honest.price(knobs, round_)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        sent = self.honest.shield(bounded, turn)
        wrong = torch.from_numpy(sent.message.clients < self.hostile)[:, None]
        return replace(
            sent, message=replace(sent.message, rows=sent.message.rows * torch.where(wrong, self.factor, 1.0))
        )

    def release(self, summed: Summed, turn: Turn) -> Released:
        released = self.honest.release(summed, turn)
        return replace(released, prices=realised(self.honest, turn, summed.least_squared_multiplier))


def flipped(federation: Federation, hostile: int) -> Federation:
    """Returns the people, some of whom hold wrong labels."""
    labels = federation.train_y.clone()
    _, records = federation.partition.indices(np.arange(hostile))
    labels[records] = federation.classes - 1 - labels[records]
    return replace(federation, train_y=labels)


def chosen_settings(settings: tuple[str, ...], seeds: Sequence[int] = (100, 101, 102)) -> tuple[str, ...]:
    """Returns the grid's best for a contender, by mean accuracy on drawn records."""
    with tempfile.TemporaryDirectory() as folder:
        means = {one: np.mean([on_drawn((*settings, *one), Path(folder), seed) for seed in seeds]) for one in GRID}
    return max(means, key=lambda one: means[one])


def on_drawn(settings: tuple[str, ...], folder: Path, seed: int) -> float:
    """Returns the test accuracy of one run on records that are drawn from a public law."""
    recipe = Recipe.load(None, [*STAGE, *settings, f"run.seed={seed}"])
    with tempfile.TemporaryDirectory() as out:
        outcome = run(stand_in(recipe, load(recipe), SYNTHETIC, folder), out=Path(out) / "run")
    return float(outcome.accuracy or 0.0)


def score(settings: tuple[str, ...], attack: str, seed: int) -> float:
    """Returns the test accuracy of one run."""
    kind, share = attack.split()
    recipe = Recipe.load(None, [*STAGE, *settings, f"run.seed={seed}"])
    federation = load(recipe)
    hostile = round(float(share) * federation.population)
    if kind == "flip":
        federation = flipped(federation, hostile)
    mechanism = assemble(recipe, federation=federation).mechanism
    if kind == "scale":
        mechanism = replace(mechanism, perturber=Scaling(mechanism.perturber, hostile, FACTOR))
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(recipe, federation=federation, mechanism=mechanism, out=Path(folder) / "run")
    assert all(entry.epsilon is not None and entry.epsilon <= 8 for entry in outcome.certificate.entries)
    return float(outcome.accuracy or 0.0)


def table(told: dict[str, dict[str, list]]) -> str:
    """Returns what was measured, with paired t-tests against local DP-SGD and Holm's correction within an attack."""
    lines = ["| attack, share | contender | accuracy (%) | p | p (Holm) |", "|---|---|---:|---:|---:|"]
    for attack, scores in told.items():
        if attack == TUNED:
            continue
        plain = 100 * np.array(scores[PLAIN])
        rivals = {name: 100 * np.array(found) for name, found in scores.items() if name != PLAIN}
        chances = {name: float(stats.ttest_rel(found, plain).pvalue) for name, found in rivals.items()}
        corrected, least = dict[str, float](), 0.0
        for place, name in enumerate(sorted(chances, key=lambda one: chances[one])):
            least = corrected[name] = max(least, min(1.0, (len(chances) - place) * chances[name]))
        lines.append(f"| {attack} | {PLAIN} | {plain.mean():.2f} ± {plain.std(ddof=1):.2f} | | |")
        for name, found in sorted(rivals.items(), key=lambda item: -item[1].mean()):
            spread = f"{found.mean():.2f} ± {found.std(ddof=1):.2f}"
            lines.append(f"| {attack} | {name} | {spread} | {chances[name]:.2g} | {corrected[name]:.2g} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("poisoning.json"))
    parser.add_argument("--attack", choices=ATTACKS, help="only this one; others that the file holds are kept")
    parser.add_argument("--table", action="store_true", help="play nothing: the table of what the file holds")
    chosen = parser.parse_args()
    told: dict[str, dict[str, list]] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    best = told.setdefault(TUNED, {})
    for name in [] if chosen.table else [name for name in CONTENDERS if name not in best]:
        best[name] = chosen_settings(CONTENDERS[name])
        chosen.out.write_text(json.dumps(told, indent=2) + "\n")
    for attack in () if chosen.table else [chosen.attack] if chosen.attack else ATTACKS:
        for name, settings in CONTENDERS.items():
            if name in SCHEDULES and attack != ATTACKS[0]:
                continue
            told.setdefault(attack, {})[name] = [
                score((*settings, *best[name]), attack, seed) for seed in range(chosen.seeds)
            ]
            chosen.out.write_text(json.dumps(told, indent=2) + "\n")
    print(table(told))


if __name__ == "__main__":
    main()

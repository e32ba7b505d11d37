"""Selection and refusal under label skew and under poisoning: a_dpfl against its variants and plain local DP-SGD.

    python benchmarks/poisoning.py --out poisoning.json

A share of the clients is hostile: it trains on flipped labels (y becomes classes − 1 − y), or multiplies what it sends
by a factor, noise included. Everything else is as in `sordino compare`: the same people, seeds and certified ε.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sordino.data.federation import Federation
from sordino.mechanism import Perturber
from sordino.perturb.price import realised
from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.runs.setup import assemble, load
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn

STAGE = (
    "partition.clients=60",
    "partition.kind=label_skew",
    "partition.share=0.8",
    "partition.share_min=0.0",
    "select.kind=fixed",
    "select.size=20",
    "train.learning_rate=0.5",
    "train.epochs=1",
    "mechanism.clip_norm=1",
    "server.learning_rate=2",
    "budget.epsilon=8",
    "run.rounds=10",
    "run.evaluate_every=10",
)
CONTENDERS = {
    "a_dpfl": ("mechanism.name=a_dpfl",),
    "a_dpfl, refusing": ("mechanism.name=a_dpfl", "mechanism.refuse_below=0.3"),
    "a_dpfl-uniform": ("mechanism.name=a_dpfl", "mechanism.selection=uniform"),
    "a_dpfl-constant": ("mechanism.name=a_dpfl", "mechanism.schedule=constant"),
    "a_dpfl-geometric": ("mechanism.name=a_dpfl", "mechanism.schedule=geometric"),
    "local_dp_sgd": ("mechanism.name=local_dp_sgd",),
}
SCHEDULES = ("a_dpfl-constant", "a_dpfl-geometric")
"""Played without an attack alone: they differ in noise, not in who is asked."""
ATTACKS = ("none 0", "flip 0.1", "flip 0.3", "scale 0.1", "scale 0.3")
FACTOR = -5.0


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("poisoning.json"))
    parser.add_argument("--attack", choices=ATTACKS, help="only this one")
    chosen = parser.parse_args()
    told: dict[str, dict[str, list[float]]] = {}
    for attack in [chosen.attack] if chosen.attack else ATTACKS:
        for name, settings in CONTENDERS.items():
            if name in SCHEDULES and attack != ATTACKS[0]:
                continue
            told.setdefault(attack, {})[name] = [score(settings, attack, seed) for seed in range(chosen.seeds)]
            found = np.array(told[attack][name])
            print(f"| {attack} | {name} | {100 * found.mean():.2f} ± {100 * found.std(ddof=1):.2f} % |", flush=True)
            chosen.out.write_text(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()

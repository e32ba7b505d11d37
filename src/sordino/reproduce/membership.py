"""Membership inference with shadow models: how often an attacker tells training records from others.

Shokri, Stronati, Song, Shmatikov (2017), "Membership inference attacks against machine learning models": shadow models
are trained like the target, each on its own half of the records; an attack model for each class learns from their
confidences what a member looks like; its success on the target is the share of right guesses, half of them members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from sordino import data, models
from sordino.data.federation import Federation
from sordino.layout import Layout
from sordino.recipe import Recipe
from sordino.reproduce.bench import recipe_of
from sordino.runner import run
from sordino.types import BoolArray, FloatArray

_GUESSED = 2000
"""Members, and as many others, that are guessed for each model."""


@dataclass(frozen=True)
class Victim:
    """A trained model's confidences on records, which of them it was trained on, and their classes."""

    confidences: FloatArray
    member: BoolArray
    labels: FloatArray


def success(settings: Sequence[str], count: int, folder: Path) -> tuple[float, float]:
    """Trains `count` models and attacks each with the others as shadows; returns mean and deviation of the success.

    **Edge cases**: models share no seed and each has its own random half of the training records, dealt out anew to as
    many clients as the settings ask for, who so hold half as many.
    """
    whole = data.federate(recipe_of(settings).data.name, recipe_of(settings).data.folder)
    victims = [_victim([*settings, f"run.seed={seed}"], whole, seed, folder) for seed in range(count)]
    rates = [_attack(victims[:place] + victims[place + 1 :], target) for place, target in enumerate(victims)]
    return float(np.mean(rates)), float(np.std(rates, ddof=1))


def _victim(settings: Sequence[str], whole: Federation, seed: int, folder: Path) -> Victim:
    recipe = recipe_of(settings)
    order = np.random.default_rng(seed).permutation(len(whole.train_x))
    inside, outside = order[: len(order) // 2], order[len(order) // 2 :]
    mine = Federation.of(
        whole.train_x[inside],
        whole.train_y[inside],
        clients=recipe.partition.clients,
        test=(whole.test_x, whole.test_y),
        classes=whole.classes,
        seed=seed,
    )
    weights = run(recipe, federation=mine, out=folder / f"seed-{seed}", resume=True).weights
    each = min(_GUESSED, len(inside), len(outside))
    guessed = np.concatenate([inside[:each], outside[:each]])
    labels = whole.train_y[guessed].numpy()
    shown = _confidences(recipe, whole, weights, whole.train_x[guessed])
    return Victim(shown, np.arange(len(guessed)) < each, labels)


def _confidences(recipe: Recipe, whole: Federation, weights: Tensor, x: Tensor) -> FloatArray:
    module = models.build(recipe.model.name, whole.input_shape, whole.classes)
    with torch.no_grad():
        for name, tensor in Layout.of(module).unflatten(weights).items():
            module.get_parameter(name).copy_(tensor)
        return np.asarray(module(x).double().softmax(1).numpy())


def _attack(shadows: Sequence[Victim], target: Victim) -> float:
    """Returns how often the shadows' lessons guess the target's members and others right."""
    right = 0
    for label in np.unique(target.labels):
        lesson = [_told(shadow, shadow.labels == label) for shadow in shadows]
        x = np.concatenate([features for features, _ in lesson])
        y = np.concatenate([member for _, member in lesson])
        student = LogisticRegression(max_iter=500).fit(x, y)
        features, member = _told(target, target.labels == label)
        right += int((student.predict(features) == member).sum())
    return right / len(target.labels)


def _told(victim: Victim, where: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Returns what the attacker looks at: sorted confidences, and that in the record's own class."""
    shown = victim.confidences[where]
    own = shown[np.arange(len(shown)), victim.labels[where].astype(int)]
    ranked = -np.sort(-shown, axis=1)[:, :3]
    features = np.log(np.clip(np.column_stack([ranked, own]), 1e-9, 1.0))
    return features, victim.member[where]

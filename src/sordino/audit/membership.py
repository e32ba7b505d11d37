"""Membership inference: shadow models on random halves of the records, an attack learned from them, and LiRA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from sordino.audit.lira import lira, logits
from sordino.audit.network import Network
from sordino.audit.people import held, only
from sordino.audit.replay import replay
from sordino.audit.roc import Roc, roc
from sordino.data.federation import Federation
from sordino.errors import RecipeError
from sordino.recipe import Recipe
from sordino.types import BoolArray, FloatArray, IntArray

Told = Callable[[int], None]

_TAUGHT = 20_000
"""Records, over all shadow models, that the attack classifier is taught with."""


@dataclass(frozen=True)
class Trained:
    """Models that were trained on random halves, and how they see every record of the pool."""

    member: BoolArray
    """Which records each model was trained on, `[models, records]`."""
    probability: FloatArray
    """Softmax outputs, `[models, records, classes]`."""
    label: IntArray

    def part(self, models: slice) -> Trained:
        """Returns some of the models."""
        return Trained(self.member[models], self.probability[models], self.label)

    @property
    def confidence(self) -> FloatArray:
        """Logits of the probability of the true label, `[models, records]`."""
        return logits(np.take_along_axis(self.probability, self.label[None, :, None], axis=2)[..., 0])


@dataclass(frozen=True)
class Membership:
    """How well members are told from others."""

    shadows: int
    trials: int
    success: FloatArray
    """Share of right answers of the learned attack in each trial; half of the records are members."""
    curve: Roc
    """LiRA's, over all trials together."""

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers."""
        return {
            "shadow_models": self.shadows,
            "trials": self.trials,
            "success_rate": float(self.success.mean()),
            "success_stddev": float(self.success.std(ddof=1)) if len(self.success) > 1 else None,
            "lira": {
                "area": self.curve.area,
                "success_rate": self.curve.success,
                "tpr_at_fpr_0.001": self.curve.tpr_at(0.001),
                "tpr_at_fpr_0.01": self.curve.tpr_at(0.01),
            },
        }


def infer(
    recipe: Recipe,
    federation: Federation,
    shadows: int,
    trials: int,
    pool: int,
    rounds: int,
    seed: int,
    told: Told = lambda done: None,
    model: nn.Module | None = None,
) -> Membership:
    """Attacks `trials` models with what `shadows` others teach, as in the geometric paper's PartitionTable III.

    Args:
        recipe: how models are trained.
        federation: whose records are attacked.
        shadows: models that the attacker trains.
        trials: models that are attacked.
        pool: records at most whose membership is drawn and guessed; the others are always in.
        rounds: how many rounds a model is trained for.
        seed: of the halves and of all training.
        told: is called with the number of models that are trained.
        model: a model of the user's own, in place of the recipe's.
    """
    if federation.classes < 2:
        raise RecipeError("membership inference looks at class probabilities: use data with classes")
    models = train(recipe, federation, shadows + trials, pool, rounds, seed, told, model)
    known, attacked = models.part(slice(shadows)), models.part(slice(shadows, None))
    scores = np.stack([lira(known.confidence, known.member, found) for found in attacked.confidence])
    return Membership(shadows, trials, learned(known, attacked), roc(scores.ravel(), attacked.member.ravel()))


def train(
    recipe: Recipe,
    federation: Federation,
    count: int,
    pool: int,
    rounds: int,
    seed: int,
    told: Told = lambda done: None,
    model: nn.Module | None = None,
) -> Trained:
    """Trains models, each on its own random half of the pool."""
    rng, network = np.random.default_rng(seed), Network.of(recipe, federation, model)
    records = np.sort(rng.permutation(held(federation))[:pool])
    x, member, seen = federation.train_x[records], [], []
    for number in range(count):
        inside = rng.random(len(records)) < 0.5
        kept = np.ones(len(federation.train_y), bool)
        kept[records[~inside]] = False
        last = replay(recipe, only(federation, kept), seed * 10_007 + number, rounds, model=model).last
        member.append(inside)
        seen.append(network.probabilities(last, x).astype(np.float32))
        told(number + 1)
    return Trained(np.stack(member), np.stack(seen).astype(np.float64), federation.train_y[records].numpy())


def learned(known: Trained, attacked: Trained) -> FloatArray:
    """Returns the success rate on each attacked model of a classifier that was taught on the shadow models.

    **Reference**: Shokri, Stronati, Song, Shmatikov (2017), "Membership Inference Attacks Against Machine Learning
    Models". One classifier for all classes, on the sorted probabilities and on that of the true label.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    features = [_features(known.probability[m], known.label) for m in range(len(known.member))]
    each = max(1, _TAUGHT // len(features))
    x = np.concatenate([feature[:each] for feature in features])
    y = np.concatenate([member[:each] for member in known.member])
    attack = HistGradientBoostingClassifier(max_iter=60, max_depth=4, random_state=0).fit(x, y)
    rates = [
        np.mean(attack.predict(_features(probability, attacked.label)) == member)
        for probability, member in zip(attacked.probability, attacked.member, strict=True)
    ]
    return np.asarray(rates)


def _features(probability: FloatArray, label: IntArray) -> FloatArray:
    top = -np.sort(-probability, axis=1)[:, :3]
    right = np.take_along_axis(probability, label[:, None], axis=1)
    return np.concatenate([np.log(np.maximum(top, 1e-12)), logits(right)], axis=1)

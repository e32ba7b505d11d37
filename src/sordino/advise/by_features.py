"""Settings that follow from features: what a recipe leaves open where its rows have norm 1.

A recipe that names `data.features` and no step of the server gets the rest from public facts. With rows of norm 1 the
noise of all rounds together moves a score by S/(μ·n), where S is the path (step × clip norm × rounds), n the number of
units and μ the budget as one Gaussian, whatever the features are and however many. So S follows from μ·n, and the
others from S and from the features' shape (docs/utility.md, "Nothing set but the features", has the rule's trials).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sordino.account.accountants.exact import separation_for
from sordino.data.features import FeatureSettings
from sordino.data.public import PublicCounts
from sordino.mechanisms import MECHANISMS
from sordino.recipe import Recipe

CLIP_NORM = 0.1
"""At the lower end: at one path a shorter clip norm is as good or better, where there are enough rounds."""
FEWEST_ROUNDS, MOST_ROUNDS, A_ROUNDS_PATH = 40, 100, 150
"""A round moves no score further than its share of the path, 150 where time allows."""
MEAN_SHARE, MOMENT_SHARE = 0.1, 0.2
"""Shares of μ for the opening's two sums."""
MEAN_ERROR, MOMENT_ERROR = 0.2, 0.35
"""Where the noise of a sum is longer than this, beside rows of norm 1, it is not asked for."""
MOST_CHANNELS = 512
"""A moment of more channels has more numbers than noise leaves of it."""
PATTERNS = 256
"""Random patterns in images: each is seen with both signs, which makes as many channels as a moment can have."""
_IMAGE = 3
"""An image has channels, rows and columns."""
LEAST_SIDE = 16
"""Pixels a side from which on two scales of the scattering transform leave four points a side."""

STEPS_BY_FEATURES = ("mechanism.clip_norm", "run.rounds", "server.path")
"""What follows for every mechanism whose clip norm bounds its messages (`usual_steps`)."""
FOLLOWS: Mapping[str, str] = {
    "data.feature_scales": f"1 for images below {LEAST_SIDE} pixels a side",
    "data.feature_count": f"{PATTERNS} for images",
    "model.bias": "False",
    "opening.feature_mean": f"{MEAN_SHARE:g} where its noise is small",
    "opening.channel_moment": f"{MOMENT_SHARE:g} where its noise is small",
    "mechanism.clip_norm": f"{CLIP_NORM:g}",
    "run.rounds": f"{FEWEST_ROUNDS} to {MOST_ROUNDS}",
    "server.path": "10·(μ·n)^¾",
}
"""What follows from features, and what it becomes."""


@dataclass(frozen=True)
class Settled:
    """A recipe whose open settings have values, and a sentence on them."""

    recipe: Recipe
    values: Mapping[str, Any] = field(default_factory=dict)
    """What the recipe left open, by name, and what it became."""
    why: str = ""


def settled(recipe: Recipe, told: PublicCounts, shape: tuple[int, ...], *, featured: bool = False) -> Settled:
    """Returns the recipe with values for what it leaves open, if they follow from its features.

    Args:
        recipe: what to do.
        told: what is declared public.
        shape: shape of a record.
        featured: whether that is the shape of its features already (where records are elsewhere).

    **Formal guarantees**: a function of the recipe, of what is declared and of the shape of a record; no record is
    looked at, so it costs nothing. What the recipe sets stays as it is, to the bit.
    **Edge cases**: numbers to predict (no classes) have scores of any size: nothing follows.
    """
    if not recipe.follows_features or not told.classes:
        return Settled(recipe)
    values = dict[str, Any]()
    if not featured:
        values = _open(recipe, _of_images(recipe.data.features, shape))
        shape = FeatureSettings.told(_with(recipe, values).data).shape(shape)
    reach = _reach(recipe, told)
    values |= _open(recipe, _values(reach, shape))
    listed = ", ".join(f"{name} = {'false' if value is False else f'{value:g}'}" for name, value in values.items())
    why = (
        "features: rows have norm 1, so what the recipe leaves open follows from public numbers, "
        f"μ·n = {reach:.5g} above all: {listed}"
    )
    return Settled(_with(recipe, values), values, why)


def scales_for(record: tuple[int, ...]) -> int:
    """Returns how many scales of the scattering transform suit images of this shape: each halves rows and columns."""
    return 2 if all(side >= LEAST_SIDE and side % 4 == 0 for side in record[1:]) else 1


def shared(recipe: Recipe, record: tuple[int, ...]) -> Recipe:
    """Returns the recipe with what follows for every mechanism alike: the features' own settings, and no bias."""
    return _with(recipe, _open(recipe, _of_images(recipe.data.features, record) | {"model.bias": False}))


def usual_steps(recipe: Recipe, told: PublicCounts) -> dict[str, Any]:
    """Returns clip norm, rounds and path for the unit and the trust of a recipe's mechanism, whatever its noise.

    **Formal guarantees**: as `settled`.
    **Edge cases**: nothing where clients make several noisy steps of their own (record unit, local trust): a clip norm
    does not say there how far a message goes.
    """
    spec = MECHANISMS[recipe.mechanism.name]
    if (spec.unit_of(recipe.mechanism), spec.trust_of(recipe.mechanism)) == ("record", "local"):
        return {}
    return _steps(_reach(recipe, told))


def _of_images(features: str, record: tuple[int, ...]) -> dict[str, Any]:
    """Returns the features' own settings, for images of this shape."""
    if len(record) != _IMAGE:
        return {}
    return {"data.feature_scales": scales_for(record)} if features == "scattering" else {"data.feature_count": PATTERNS}


def _reach(recipe: Recipe, told: PublicCounts) -> float:
    """Returns μ·n: one unit's length over the noise that a sum of so many needs, in units of the mean's clip norm."""
    spec, budget = MECHANISMS[recipe.mechanism.name], recipe.budget
    assert budget.epsilon is not None
    units = float(told.total if spec.unit_of(recipe.mechanism) == "record" else told.people)
    if spec.trust_of(recipe.mechanism) == "local":
        units = math.sqrt(units)  # every message has all the noise
    return separation_for(budget.epsilon, budget.delta) * units


def _steps(reach: float) -> dict[str, Any]:
    path = float(f"{10 * reach**0.75:.3g}")
    return {
        "mechanism.clip_norm": CLIP_NORM,
        "run.rounds": max(FEWEST_ROUNDS, min(MOST_ROUNDS, math.ceil(path / A_ROUNDS_PATH))),
        "server.path": path,
    }


def _values(reach: float, shape: tuple[int, ...]) -> dict[str, Any]:
    image, length, channels = len(shape) == _IMAGE, math.prod(shape), shape[0]
    mean = image and math.sqrt(length) / (MEAN_SHARE * reach) <= MEAN_ERROR
    moment = channels <= MOST_CHANNELS and math.sqrt(2 * channels) / (MOMENT_SHARE * reach) <= MOMENT_ERROR
    return {
        "model.bias": False,
        "opening.feature_mean": MEAN_SHARE if mean else 0.0,
        "opening.channel_moment": MOMENT_SHARE if moment else 0.0,
        **_steps(reach),
    }


def _open(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of settings that the recipe leaves open; whoever sets one of two shares of μ sets both."""
    shares = {"feature_mean", "channel_moment"}

    def left(name: str) -> bool:
        section, field = name.split(".")
        given = getattr(recipe, section).model_fields_set
        return not given & shares if section == "opening" else field not in given

    return {name: value for name, value in values.items() if left(name)}


def _with(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, field = name.split(".")
        sections.setdefault(section, {})[field] = value
    return recipe.but(**sections)

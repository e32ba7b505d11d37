"""How large a run may be: what a node refuses before it makes room for anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import torch

from sordino.errors import NodeRefused, ProtocolError
from sordino.federation.plan import RunPlan, recipe_of
from sordino.federation.policy import SizePolicy
from sordino.models.zoo import MODELS
from sordino.recipe import Recipe

_OVERHEAD = 1 << 26
"""Bytes of a message besides its vectors: the plan, the cohort, shares of secrets for every other member."""
_A_VALUE = 16
"""Bytes that a parameter may take in a message: a float64 twice, which is more than any of them has."""


def check_message(size: SizePolicy, parts: Mapping[str, bytes]) -> None:
    """Refuses a message that is larger than any of a run within the policy: it is not even looked into.

    Raises:
        NodeRefused: a sentence that names the setting of the policy.
    """
    length, most = sum(map(len, parts.values())), _OVERHEAD + _A_VALUE * size.parameters
    if length > most:
        raise NodeRefused(
            f"a message has {length} bytes and the policy's size.parameters {size.parameters} allows {most}: raise it, "
            "or leave the node out"
        )


def check_answer(plan: RunPlan, parts: Mapping[str, bytes]) -> None:
    """Refuses a member's answer that is larger than any of this run: it is not even looked into.

    Raises:
        ProtocolError: it is.
    """
    length, most = sum(map(len, parts.values())), _OVERHEAD + _A_VALUE * _parameters_of(plan)
    if length > most:
        raise ProtocolError(
            f"an answer has {length} bytes, and none of this run has more than {most:.0f}: it is ignored"
        )


def check_size(size: SizePolicy, plan: RunPlan) -> None:
    """Refuses a run that is larger than the policy allows; counts without making anything of that size.

    Raises:
        NodeRefused: a sentence that names the setting of the policy.
    """
    recipe = recipe_of(plan)
    shape, train = recipe.public.shape or (1,), recipe.train
    people = max(plan.population, recipe.public.population or 0)
    _at_most("members", people, size.members, "size.members")
    _at_most("rounds", recipe.run.rounds, size.rounds, "size.rounds")
    _at_most("local steps or epochs a round", max(train.steps or 0, train.epochs or 0), size.steps, "size.steps")
    _at_most("values in a record", math.prod(shape), size.values, "size.values")
    if recipe.opening.channel_moment:
        _at_most("values in opening.channel_moment", shape[0] ** 2, size.parameters, "size.parameters")
    _at_most("parameters", _parameters_of(plan), size.parameters, "size.parameters")


@lru_cache(maxsize=4)  # layers are made to count them, and a plan comes with every request
def _parameters_of(plan: RunPlan) -> float:
    return parameters(recipe_of(plan))


def parameters(recipe: Recipe) -> float:
    """Returns how many parameters the recipe's model has, without making them; ∞ where they cannot be counted."""
    blueprint, shape, chosen = MODELS.get(recipe.model.name), recipe.public.shape or (1,), recipe.model
    if blueprint is None:
        return 0  # composing says what is wrong with the name
    layers, classes = max([len(chosen.hidden), 1]), recipe.public.classes or 1
    if layers > 1000 or max([classes, *chosen.hidden, *shape]) >= 1 << 31:
        return math.inf
    with torch.device("meta"):  # shapes alone
        made = blueprint.layers(tuple(shape), classes, chosen.hidden, chosen.activation)
    return sum(parameter.numel() for layer in made for parameter in layer.parameters())


def _at_most(what: str, count: float, most: int, setting: str) -> None:
    if count > most:
        raise NodeRefused(
            f"the run has {count:,.0f} {what} and the policy's {setting} is {most:,}: raise it if this machine can "
            "hold that, or leave the node out"
        )

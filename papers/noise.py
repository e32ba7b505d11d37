"""How loud printed noise is beside what it is added to, told from a run's own recipe."""

from __future__ import annotations

import math
from functools import lru_cache

from sordino.account.accountants.published import fed_cad_schedule
from sordino.models.zoo import build
from sordino.recipe import Recipe

_LARGEST = math.log(3.4e38)
_SHAPES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar10": (3, 32, 32)}


def width(recipe: Recipe) -> int:
    """Returns how many weights the network has, for ten classes of images."""
    return sum(map(math.prod, _weights(recipe.model.name, recipe.data.name)))


@lru_cache(maxsize=64)
def _weights(model: str, data: str) -> list[tuple[int, ...]]:
    """Returns the shapes of a network's weights."""
    return [tuple(weights.shape) for weights in build(model, _SHAPES[data], 10).parameters()]


def cohort(recipe: Recipe) -> int:
    """Returns how many messages are averaged in a round."""
    return recipe.select.size or recipe.partition.clients or 1


def norm_told(recipe: Recipe) -> str:
    """Returns the norm of noise of σ·C on every weight, alone and averaged, beside the longest update."""
    options = recipe.mechanism.model_dump()
    sigma, bound = options["noise_multiplier"], options["clip_norm"]
    norm, messages = sigma * bound * width(recipe) ** 0.5, cohort(recipe)
    return (
        f"noise of σ·C = {sigma * bound:g} on each of {width(recipe):,} weights has norm {norm:.1f}, the average of "
        f"{messages} messages still {norm / messages**0.5:.1f}, and an update has norm {bound:g} at most"
    )


def drowned_told(recipe: Recipe) -> str:
    """Returns the norm of a trusted server's noise beside the longest update; nothing where it is not longer."""
    options = recipe.mechanism.model_dump()
    bound = options["clip_norm"]
    norm = options["noise_multiplier"] * bound / cohort(recipe) * width(recipe) ** 0.5
    if norm <= bound:
        return ""
    return (
        f"CL-FL's settings are not stated: with ours the noise of a released mean has norm {norm:,.0f}, and an update "
        f"{bound:g} at most"
    )


def shrunk(recipe: Recipe) -> float:
    """Returns how many times C the noise of a batch's mean gradient is long: what clipping afterwards divides it by.

    A-DPFL, Algorithm 3, lines 5 and 6: σ·C/B on each of d weights, and then a clip to C.
    """
    return float(
        recipe.mechanism.model_dump()["noise_multiplier"] * width(recipe) ** 0.5 / (recipe.train.batch_size or 1)
    )


def shrunk_told(name: str, recipe: Recipe) -> str:
    """Returns what noise before clipping does to the steps, in words."""
    bound, rate = recipe.mechanism.model_dump()["clip_norm"], recipe.train.learning_rate
    return (
        f"Algorithm 3 as printed, {name}: noise of σ·C/B on each of {width(recipe):,} weights has norm "
        f"{shrunk(recipe) * bound:.0f}. Clipping that to C = {bound:g} divides a batch's gradient by "
        f"{shrunk(recipe):.0f} at σ = 1, so that steps towards it are those of η = {rate / shrunk(recipe):.4f} in the "
        f"place of {rate:g}."
    )


def times(recipe: Recipe) -> float:
    """Returns how many times each weight a client's noise is: √d·σ0·β over the divisor (Xue et al., Eq. (3), (4))."""
    options = recipe.mechanism.model_dump()
    relative = options["noise_multiplier"] * options["beta"] / options["sensitivity_divisor"]
    return float(relative * (width(recipe) ** 0.5 if options["root_dimension"] else 1.0))


def rounds_until_overflow(recipe: Recipe) -> int:
    """Returns how many rounds a run of that noise lasts, after which scores are beyond single precision and it ends.

    Each round multiplies the weights by what averaging leaves of the noise, and a score has one factor of every layer.
    """
    growth = times(recipe) / cohort(recipe) ** 0.5
    if growth <= 1:
        return recipe.run.rounds
    layers = sum(len(shape) > 1 for shape in _weights(recipe.model.name, recipe.data.name))
    return min(recipe.run.rounds, 1 + math.ceil(_LARGEST / (layers * math.log(growth))))


def piled_up(difference: float, messages: int) -> float:
    """Returns the variance of the sum of a client's noise over that of fresh noise, with Fed-CAD's constant Diff."""
    _, carried, fresh = fed_cad_schedule(difference, messages)
    reach, total = 0.0, 0.0
    for r, s in zip([*carried[1:], 0.0][::-1], fresh[::-1], strict=True):
        reach = 1 + r * reach  # how often the noise that is new in this message counts in the sum
        total += (s * reach) ** 2
    return total / messages


def piled_up_told(recipe: Recipe) -> str:
    """Returns how reused noise adds up in a model, for as many messages as a client sends on average."""
    difference = recipe.mechanism.model_dump()["difference"]
    messages = round(recipe.run.rounds * cohort(recipe) / (recipe.partition.clients or 1))
    return (
        f"a model adds messages up, and reused noise adds up faster than fresh: over the {messages} messages of a "
        f"client the sum has {piled_up(difference, messages):.2f} times the variance at Diff = {difference:g}"
    )

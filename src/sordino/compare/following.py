"""Steps of a comparison whose recipe names features and no step: the rule of `advise/by_features.py`, for everybody.

The step that suits pixels is short for rows of norm 1, and whoever is played with it is no rival. So what such a recipe
leaves open follows from public facts here as in a run, for those too whose mechanism gets nothing of it in a run: the
features' settings and the bias are the same for all, path, clip norm and rounds the same for all in a class.

**Formal guarantees**: functions of the recipe and of what is declared; no record is looked at.
**Edge cases**: nobody opens with a release unless the recipe says so, as not every mechanism can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sordino.advise.by_features import shared, usual_steps
from sordino.compare.contest import Contender
from sordino.data.public import PublicCounts
from sordino.recipe import Recipe
from sordino.runs.setup import PLAIN_RECORDS, declared, load


def facts(common: Recipe) -> tuple[Recipe, PublicCounts | None]:
    """Returns the common recipe with what is the same for all, and what is declared, if anything follows."""
    if not common.leaves_step_to_features:
        return common, None
    federation = declared(common, load(common.but(data=PLAIN_RECORDS)))
    told = federation.declared
    return (shared(common, federation.input_shape), told) if told.classes else (common, None)


def followed(field: Sequence[Contender], told: PublicCounts, epsilons: Sequence[float]) -> list[Contender]:
    """Returns the contenders with what their classes' steps follow from at each budget."""
    return [replace(one, followed={epsilon: _steps(one, told, epsilon) for epsilon in epsilons}) for one in field]


def _steps(contender: Contender, told: PublicCounts, epsilon: float) -> tuple[str, ...]:
    usual = usual_steps(contender.at(epsilon), told) if contender.left_open else {}
    return tuple(f"{name}={value:g}" for name, value in usual.items() if name in contender.left_open)

"""A small grid of settings, the same for everybody."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sordino import recipe as recipes
from sordino.errors import RecipeError
from sordino.recipe import Recipe

DEFAULT = ("mechanism.clip_norm=0.1,0.5,2", "server.learning_rate=0.5,2,8")
"""How far a unit is heard, and how far the server goes: what every mechanism has."""
AROUND = (0.5, 1, 2)
"""What a recipe's own clip norm and path are tried at, where it has a path."""
_SEPARATOR = ","
_FREE = ("mechanism", "train", "server")
"""Sections that may be searched: they are no part of the task and of the promise."""
STEPS = ("server.learning_rate", "server.path")
"""Two names of one thing: whoever sets one has set both."""
_PRICED = ("mechanism.name", "mechanism.mode", "mechanism.noise_multiplier", "mechanism.unit", "mechanism.trust")


@dataclass(frozen=True)
class SettingsGrid:
    """Values of settings by name (`section.field`), to be tried in every combination."""

    values: Mapping[str, tuple[str, ...]]

    @classmethod
    def parse(cls, texts: Sequence[str] = DEFAULT) -> SettingsGrid:
        """Returns the grid of lines `section.field=a,b,c`.

        Raises:
            RecipeError: a line is no such list, names a setting twice, or one that is not to be searched.
        """
        values: dict[str, tuple[str, ...]] = {}
        for text in texts:
            name, equals, rest = text.partition("=")
            name, found = name.strip(), tuple(part.strip() for part in rest.split(_SEPARATOR) if part.strip())
            if not equals or not found:
                raise RecipeError(f"--grid {text!r} is not of the form section.field=value,value")
            if name.partition(".")[0] not in _FREE or name in _PRICED:
                raise RecipeError(
                    f"--grid {name} is part of the task or of the promise: search settings of {', '.join(_FREE)} "
                    "that change neither"
                )
            if name in values:
                raise RecipeError(f"--grid names {name} twice: put all its values into one list")
            values[name] = found
        return cls(values)

    def without(self, names: Collection[str]) -> SettingsGrid:
        """Returns the grid without settings that somebody has fixed already."""
        gone = {*names, *(STEPS if set(STEPS) & set(names) else ())}
        return SettingsGrid({name: values for name, values in self.values.items() if name not in gone})

    def points(self) -> list[tuple[str, ...]]:
        """Returns every combination as settings `section.field=value`, in the order of the lists."""
        names = list(self.values)
        return [
            tuple(f"{name}={value}" for name, value in zip(names, chosen, strict=True))
            for chosen in product(*self.values.values())
        ]


def usual_grid(recipe: Recipe) -> tuple[str, ...]:
    """Returns what is searched where nobody says: `DEFAULT`, or what lies around a recipe's path and its clip norm."""

    def around(name: str, value: float) -> str:
        return f"{name}={_SEPARATOR.join(f'{value * factor:g}' for factor in AROUND)}"

    path = recipe.server.path
    if path is None:
        return DEFAULT
    clip_norm = around("mechanism.clip_norm", recipe.mechanism.clip_norm)
    return (clip_norm,) if path == "auto" else (clip_norm, around("server.path", path))


def with_settings(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """Returns the recipe with `section.field=value` settings, validated again."""
    tree: dict[str, Any] = recipe.model_dump(exclude_none=True)
    if recipe.budget.epsilon is None:
        tree["budget"]["epsilon"] = "none"  # left out it would be the default
    for setting in settings:
        recipes.put(tree, setting)
    return Recipe.from_dict(tree)

"""Every combination of a grid, played on stand-in data; the best one is chosen."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sordino.errors import RecipeError
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.tune.grid import SettingsGrid, with_settings


@dataclass(frozen=True)
class Candidate:
    """One combination with one seed: what is played, and where."""

    settings: tuple[str, ...]
    recipe: Recipe
    folder: Path


Player = Callable[[Sequence[Candidate]], Mapping[Path, str]]
"""Plays candidates, and returns the folders of those that could not be, with the reason."""


@dataclass(frozen=True)
class Score:
    """What one combination came to, over its seeds."""

    settings: tuple[str, ...]
    scores: tuple[float, ...]
    """Test accuracy on the stand-in data; without classes, the loss with its sign turned."""
    failed: str = ""

    @property
    def mean(self) -> float:
        """Mean over seeds; −∞ where it could not be played or diverged."""
        found = float(np.mean(self.scores)) if self.scores and not self.failed else -math.inf
        return found if math.isfinite(found) else -math.inf


def candidates(recipe: Recipe, grid: SettingsGrid, seeds: Sequence[int], out: Path) -> list[Candidate]:
    """Returns all that is to be played for one recipe (on stand-in data already)."""
    return [
        Candidate(settings, _seeded(with_settings(recipe, settings), seed), out / _name(settings) / f"seed-{seed}")
        for settings in grid.points()
        for seed in seeds
    ]


def scored(tried: Sequence[Candidate], failed: Mapping[Path, str]) -> list[Score]:
    """Returns what the combinations came to, best first; equal ones in the grid's order.

    Raises:
        RecipeError: none of them could be played.
    """
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in tried:
        groups.setdefault(candidate.settings, []).append(candidate)
    rows = [_score(settings, group, failed) for settings, group in groups.items()]
    if all(row.failed for row in rows):
        raise RecipeError(f"nothing of the grid could be played: {rows[0].failed}")
    return sorted(rows, key=lambda row: -row.mean)


def _score(settings: tuple[str, ...], group: Sequence[Candidate], failed: Mapping[Path, str]) -> Score:
    reasons = [failed[one.folder] for one in group if one.folder in failed]
    if reasons:
        return Score(settings, (), reasons[0])
    return Score(settings, tuple(last_score(one.folder) for one in group))


def last_score(folder: Path) -> float:
    """Returns the last accuracy of a run, or its loss with the sign turned; NaN where nothing was measured."""
    lines = RunFolder(folder).metrics()
    for field, sign in (("accuracy", 1.0), ("loss", -1.0)):
        found = [line[field] for line in lines if line.get(field) is not None]
        if found:
            return sign * float(found[-1])
    return math.nan


def _seeded(recipe: Recipe, seed: int) -> Recipe:
    return with_settings(recipe, [f"run.seed={seed}"])


def _name(settings: Sequence[str]) -> str:
    """Returns a folder's name for a combination: its values, and a digest that tells equal ones apart."""
    words = "_".join(setting.partition("=")[2] for setting in settings).replace("/", "-")
    digest = hashlib.blake2b("\n".join(settings).encode(), digest_size=3).hexdigest()
    return f"{words[:40]}-{digest}"

"""Every contender is tuned alike: the same grid, the same stand-in data, the same seed, before anybody competes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sordino.compare.contest import CEILING, Contender
from sordino.compare.playing import ContestWatcher, play_all
from sordino.errors import RecipeError
from sordino.recipe import Recipe
from sordino.runs.setup import load
from sordino.tune.grid import SettingsGrid, usual_grid
from sordino.tune.search import Candidate, Score, candidates, scored
from sordino.tune.stand_in import stand_in


@dataclass(frozen=True)
class Tuned:
    """The contenders with the settings that were chosen for them, and what all that were tried came to."""

    contenders: list[Contender]
    scores: Mapping[tuple[str, float], Sequence[Score]]
    """By label and budget, best first."""


def tuned(
    field: Sequence[Contender],
    common: Recipe,
    epsilons: Sequence[float],
    grid: SettingsGrid | None,
    name: str,
    out: Path,
    jobs: int,
    watcher: ContestWatcher,
) -> Tuned:
    """Plays the grid for every contender at every budget on stand-in data, and returns the best for each.

    Without a grid it is the usual one: around a contender's path, if it has one, which is the same for all in a class.

    **Formal guarantees**: private records are used for nothing but the shape of one of them (`tune/stand_in.py`), so
    the choice costs nothing.
    **Edge cases**: a contender for which nothing of the grid can be played stays as it is: the comparison tells why.
    """
    federation, seed = load(common), common.run.seed
    tried: dict[tuple[str, float], list[Candidate]] = {}
    for contender in field:
        for epsilon in epsilons if contender.recipe.mechanism.name != CEILING else epsilons[:1]:
            budgeted, place = contender.at(epsilon), out / contender.label / f"epsilon-{epsilon:g}"
            searched = (grid or SettingsGrid.parse(usual_grid(budgeted))).without(contender.fixed)
            data = stand_in(budgeted, federation, name, out)
            tried[contender.label, epsilon] = candidates(data, searched, [seed], place)
    failed = play_all([one for group in tried.values() for one in group], jobs, watcher)
    scores: dict[tuple[str, float], Sequence[Score]] = {}
    for who, group in tried.items():
        try:
            scores[who] = scored(group, failed)
        except RecipeError:
            scores[who] = []
    return Tuned([_chosen(contender, scores) for contender in field], scores)


def _chosen(contender: Contender, scores: Mapping[tuple[str, float], Sequence[Score]]) -> Contender:
    best = {epsilon: rows[0].settings for (label, epsilon), rows in scores.items() if label == contender.label and rows}
    return replace(contender, tuned=best)

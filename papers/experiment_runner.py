"""Plays the runs of an experiment, full or quick; each is a line of the store and played once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from papers.performing import perform
from papers.run_store import RunStore
from papers.tasks import Measure, Task, by_round, missing
from sordino import recipe as recipes
from sordino.charts import ChartKind, Rule, Series
from sordino.compare.playing import ContestWatcher
from sordino.errors import SordinoError
from sordino.recipe import Recipe

T = TypeVar("T")
UNBOUND = "budget.epsilon=1e9"
"""For experiments that set their noise themselves: no budget stops them."""
_FEW = 3
"""So few points need marks: a line between them, or none at all, would hardly be seen."""
BY_CHANCE = Rule(0.1, "chance", 7, below=True)
"""What guessing one of ten classes comes to."""


@dataclass(frozen=True)
class ExperimentRun:
    """One run of an experiment, as it is stored."""

    recipe: Recipe
    rounds: tuple[Mapping[str, Any], ...]
    notes: Mapping[str, np.ndarray] = field(default_factory=dict)

    def last(self, field: str) -> float | None:
        """Returns the last value of a metric that was measured."""
        return next((line[field] for line in reversed(self.rounds) if line.get(field) is not None), None)


@dataclass(frozen=True)
class SeedRuns:
    """The same recipe with different seeds."""

    views: tuple[ExperimentRun, ...]

    def last(self, field: str = "accuracy") -> tuple[float, float]:
        """Returns mean and standard deviation over seeds of the last value of a metric."""
        return spread_over(self.ends(field))

    def best(self, field: str = "accuracy") -> tuple[float, float]:
        """Returns mean and standard deviation over seeds of the best value (the greatest; of the loss, the least)."""
        pick = min if field == "loss" else max
        return spread_over(
            [pick(_known(line[field]) for line in view.rounds if line.get(field) is not None) for view in self.views]
        )

    def ends(self, field: str = "accuracy") -> list[float]:
        """Returns the last value of a metric, seed by seed."""
        return [_known(view.last(field)) for view in self.views]

    def reach(self, field: str = "accuracy") -> tuple[float, float]:
        """Returns the least and the greatest over seeds of the last value of a metric."""
        return min(self.ends(field)), max(self.ends(field))

    def lead(self, other: SeedRuns, field: str = "accuracy") -> tuple[float, float]:
        """Returns how far this one ends above another, over the seeds that both have: mean and standard deviation."""
        pairs = zip(self.views, other.views, strict=False)
        return spread_over([_known(mine.last(field)) - _known(theirs.last(field)) for mine, theirs in pairs])

    def until(self, round_: int) -> SeedRuns:
        """Returns the runs as they stood after some round: where noise is not planned for the end, a run so long."""
        return SeedRuns(tuple(replace(view, rounds=view.rounds[:round_]) for view in self.views))

    def rounds(self) -> float:
        """Returns the mean number of rounds that were played."""
        return float(np.mean([len(view.rounds) for view in self.views]))

    def series(self, label: str, color: int, field: str = "accuracy", dashed: bool = False) -> Series:
        """Returns a metric by round, mean and band over seeds, as far as all of them played."""
        paths = [{line["round"]: line[field] for line in v.rounds if line.get(field) is not None} for v in self.views]
        rounds = sorted(set.intersection(*(set(path) for path in paths)))
        table = np.array([[path[round_] for round_ in rounds] for path in paths])
        mean, std = table.mean(0), table.std(0)
        low, high = ([float(x) for x in edge] for edge in (mean - std, mean + std))
        edges = (low, high) if len(paths) > 1 else (None, None)
        kind: ChartKind = "both" if len(rounds) <= _FEW else "line"
        return Series(label, rounds, [float(x) for x in mean], kind, color, dashed, *edges)


@dataclass(frozen=True)
class ExperimentRunner:
    """How big an experiment is run, and where its runs are kept."""

    folder: Path
    """Room for runs that are under way."""
    quick: bool
    jobs: int = 1
    seeds: int | None = None
    watcher: ContestWatcher = lambda done, total: None
    quick_cifar: bool = False
    """Whether CIFAR-10 stays quick where the other data sets are full."""
    usual_seeds: int = 3
    """How many seeds the full form has where nobody asks for another number."""
    store: RunStore = field(default_factory=RunStore)
    """What was played before, and where it is kept."""

    def on(self, data: str) -> ExperimentRunner:
        """Returns the runner for a data set, by its usual name: quick if this one is, or if that is to stay so."""
        return replace(self, quick=self.quick or (self.quick_cifar and data == "CIFAR-10"))

    def short(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns those data sets that are quick where the others are full."""
        return tuple(name for name in names if self.on(name).quick and not self.quick)

    def size(self, full: T, quick: T) -> T:
        """Returns the full or the quick value of a setting."""
        return quick if self.quick else full

    @property
    def repeats(self) -> int:
        """How many seeds each run has."""
        return self.seeds or self.size(self.usual_seeds, 1)

    def play(self, plans: Mapping[str, Sequence[str]]) -> dict[str, SeedRuns]:
        """Plays recipes, each given by its settings, and returns their runs by name.

        Args:
            plans: `section.field=value` settings by name.

        Raises:
            SordinoError: a run cannot be played; the sentence says why.
        """
        groups = {
            name: [Task(recipe_of([*settings, f"run.seed={seed}"])) for seed in range(self.repeats)]
            for name, settings in plans.items()
        }
        self.do([task for group in groups.values() for task in group])
        return {name: SeedRuns(tuple(self._run(task) for task in group)) for name, group in groups.items()}

    def measure(self, measure: Measure, settings: Sequence[str], *arguments: int) -> list[Mapping[str, Any]]:
        """Returns what a measurement found, seed by seed."""
        tasks = [Task(recipe_of([*settings, f"run.seed={seed}"]), measure, arguments) for seed in range(self.repeats)]
        self.do(tasks)
        return [self.found(task) for task in tasks]

    def once(self, measure: Measure, settings: Sequence[str], *arguments: int) -> Mapping[str, Any]:
        """Returns what a measurement found that has its own repetitions."""
        task = Task(recipe_of(settings), measure, arguments)
        self.do([task])
        return self.found(task)

    def do(self, tasks: Sequence[Task], again: bool = False) -> None:
        """Does what the store has not; `again`: also what other sources played.

        Raises:
            SordinoError: one of them cannot be done; the sentence says why.
        """
        lacking = missing(tasks, self.store, again)
        why = perform(lacking, self.store, self.folder, self.jobs, self.watcher) if lacking else None
        if why is not None:
            raise SordinoError(why)

    def found(self, task: Task) -> Mapping[str, Any]:
        """Returns what the store has of a task."""
        return self.store.lines[self.store.keys(task.what, task.recipe)[0]].found

    def _run(self, task: Task) -> ExperimentRun:
        found = self.found(task)
        notes = {name: np.array(rows) for name, rows in found.get("notes", {}).items()}
        return ExperimentRun(task.recipe, by_round(found), notes)


def printed_rules(values: Mapping[int, float]) -> tuple[Rule, ...]:
    """Returns dotted lines for printed values by colour; the word stands once, under the least, where there is room."""
    least = min(values.values(), default=0.0)
    return tuple(Rule(value, "printed" if value == least else "", color, True) for color, value in values.items())


def recipe_of(settings: Sequence[str]) -> Recipe:
    """Returns a recipe of nothing but these settings and each section's own defaults (not the embedded recipe's)."""
    tree: dict[str, Any] = {}
    for setting in settings:
        recipes.put(tree, setting)
    return Recipe.from_dict(tree)


def _known(value: float | None) -> float:
    return float("nan") if value is None else value


def spread_over(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Returns mean and standard deviation over seeds; of one seed there is none."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

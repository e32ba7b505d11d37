"""What an experiment has to do, found out by letting it judge results that are made up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from papers.estimates import beyond, seconds
from papers.experiment import Experiment
from papers.experiment_runner import ExperimentRunner
from papers.run_store import RunStore
from papers.tasks import NOTES, Task, missing
from sordino.recipe import Recipe


@dataclass(frozen=True)
class PlanningRunner(ExperimentRunner):
    """Takes note of every task, checks its recipe, and makes up what it would find."""

    asked: list[Task] = field(default_factory=list)

    def do(self, tasks: Sequence[Task], again: bool = False) -> None:
        """Takes note of tasks."""
        self.asked.extend(tasks)

    def found(self, task: Task) -> Mapping[str, Any]:
        """Returns what is made up for a task."""
        return imagined(task.recipe) if task.measure is None else MADE_UP[task.measure.__name__]


def imagined(recipe: Recipe) -> dict[str, Any]:
    """Returns what a run might have found, always the same for the same recipe."""
    draw = np.random.default_rng(int.from_bytes(hashlib.blake2b(recipe.to_toml().encode(), digest_size=4).digest()))
    accuracy = draw.random(recipe.run.rounds)
    fives = np.sort(draw.normal(size=(recipe.run.rounds, 5)))
    return {
        "rounds": recipe.run.rounds,
        "accuracy": accuracy.tolist(),
        "loss": (1 - accuracy).tolist(),
        "survivors": 40,
        "noise_stddev": 0.025,
        "knobs.noise_multiplier": [0.7 ** (place // 3) for place in range(recipe.run.rounds)],
        "knobs.last_round": 30.0,
        "notes": {name: fives * 0.99**place for place, name in enumerate(NOTES)}
        | {"round": np.arange(1, recipe.run.rounds + 1)[:, None]},
    }


MADE_UP: Mapping[str, Mapping[str, Any]] = {
    "distances": {"by_round": [(0.2, 0.1, 0.3)] * 2 + [(0.1, 0.0, 0.2)]},
    "membership": {"success_rate": 0.5, "success_stddev": 0.01, "lira": {"area": 0.5, "tpr_at_fpr_0.001": 0.001}},
    "least_squares": {"gap": 0.1, "norm": 1.0},
    "moved": {"bias": 0.1, "within": 0.9},
    "poisoned": {"accuracy": 0.6, "hostile": 0.5, "honest": 0.1},
}
"""What measurements might have found."""


def plan(experiment: Experiment, runner: ExperimentRunner) -> tuple[Task, ...]:
    """Returns all that an experiment has to do as a runner would run it."""
    return _planned(experiment, runner.quick, runner.quick_cifar, runner.seeds)


@cache
def _planned(experiment: Experiment, quick: bool, quick_cifar: bool, seeds: int | None) -> tuple[Task, ...]:
    planner = PlanningRunner(Path(), quick, seeds=seeds, quick_cifar=quick_cifar, usual_seeds=experiment.seeds)
    experiment.find(planner.on(experiment.data))
    return tuple(planner.asked)  # `on` shares it


def complete(experiment: Experiment, runner: ExperimentRunner) -> int:
    """Returns how many seeds of an experiment are stored whole."""
    wanted = replace(runner, usual_seeds=experiment.seeds).repeats
    counts = range(wanted, 0, -1)
    return next((n for n in counts if not missing(plan(experiment, replace(runner, seeds=n)), runner.store)), 0)


def by_seed(experiments: Sequence[Experiment], runner: ExperimentRunner, again: bool = False) -> list[Task]:
    """Returns what is missing of experiments, seed by seed, of each first the experiment that takes least.

    What two cores cannot do in three hours comes last, all its seeds: it would keep the others from theirs.
    """
    rows: list[tuple[bool, int, float, int, float, Task]] = []
    for place, experiment in enumerate(experiments):
        lacking = [
            (expected(task, runner.store), task) for task in missing(plan(experiment, runner), runner.store, again)
        ]
        long = beyond(sum(cost for cost, _ in lacking))
        for seed in {task.recipe.run.seed for _, task in lacking}:
            mine = [(cost, task) for cost, task in lacking if task.recipe.run.seed == seed]
            total = sum(cost for cost, _ in mine)
            rows += [(long, seed, total, place, cost, task) for cost, task in mine]
    return missing([task for *_, task in sorted(rows, key=lambda row: row[:5])], runner.store, again)


def left(experiment: Experiment, runner: ExperimentRunner) -> float:
    """Returns the processor seconds of all that is missing of an experiment."""
    return sum(expected(task, runner.store) for task in missing(plan(experiment, runner), runner.store))


def expected(task: Task, store: RunStore) -> float:
    """Returns the processor seconds that a task takes: as another seed took, else by its network."""
    known = store.seconds(store.keys(task.what, task.recipe)[1])
    return seconds(task.what, task.recipe) if known is None else known

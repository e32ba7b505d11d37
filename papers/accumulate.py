"""Brings experiments forward by whatever time there is: what is played once is there for whoever goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from papers.estimates import told
from papers.experiment import Experiment
from papers.experiment_runner import ExperimentRunner
from papers.performing import TimeLimit, perform
from papers.planning import by_seed, complete, expected
from papers.tasks import Task


def within(minutes: float, experiments: Sequence[Experiment], runner: ExperimentRunner, again: bool = False) -> str:
    """Plays what is missing of experiments, as much as fits into some minutes; returns what that came to.

    In the order of `by_seed`; a run is begun only if it should end in time, and one that does not goes on the next
    time.
    """
    limit, trained = TimeLimit(minutes), [one for one in experiments if one.kind == "training"]
    cost = partial(_cost, runner)
    lacking = by_seed(trained, runner, again)
    before = {key: line.code for key, line in runner.store.lines.items()}
    why = perform(lacking, runner.store, runner.folder, runner.jobs, runner.watcher, limit, cost)
    new = [line for key, line in runner.store.lines.items() if before.get(key) != line.code]
    rest = by_seed(trained, runner, again)
    return (
        f"{len(new)} of {len(lacking)} runs played, {told(sum(line.cpu for line in new))} of processor time; "
        f"{len(rest)} are missing, about {told(sum(map(cost, rest)))} of one core"
        + (f"; one cannot be played: {why}" if why else "")
    )


def _cost(runner: ExperimentRunner, task: Task) -> float:
    return expected(task, runner.store)


def as_far_as_it_is(experiment: Experiment, runner: ExperimentRunner) -> ExperimentRunner | None:
    """Returns the runner for as many seeds as are stored whole; none where not even one is."""
    if experiment.kind == "exact":
        return runner
    seeds = complete(experiment, runner)
    return replace(runner, seeds=seeds) if seeds else None

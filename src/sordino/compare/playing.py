"""Plays trials in parallel processes; what is finished is never played again, what was cut short goes on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from sordino.apart import live_with_parent, processes
from sordino.errors import RecipeError, SordinoError, SordinoWarning
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder

ContestWatcher = Callable[[int, int], None]
"""Is told how many rounds have been played, and how many there are in all."""
_LOOK = 0.5


class PlannedRun(Protocol):
    """A run that is to be played: what, and where."""

    @property
    def recipe(self) -> Recipe:
        """What is played."""

    @property
    def folder(self) -> Path:
        """Where it is kept."""


def play_all(trials: Sequence[PlannedRun], jobs: int, watcher: ContestWatcher) -> dict[Path, str]:
    """Plays what is not finished, and returns the folders of what cannot be, with the sentence that says why.

    **Edge cases**: a trial that was played before with another recipe is refused: the folder belongs to another
    comparison. One job at a time has all cores for each run's clients; several have one core each. Results are the
    same.
    """
    waiting = [trial for trial in trials if not finished(trial)]
    total = sum(trial.recipe.run.rounds for trial in trials)
    failed: dict[Path, str] = {}
    if jobs == 1:  # another process would do the same after reading all modules and data again
        for trial in waiting:
            _note(play(trial.recipe, trial.folder), trial, failed)
            watcher(sum(_rounds_done(trial, failed) for trial in trials), total)
    elif waiting:
        _play_apart(waiting, trials, jobs, watcher, failed)
    return failed


def _play_apart(
    waiting: Sequence[PlannedRun],
    trials: Sequence[PlannedRun],
    jobs: int,
    watcher: ContestWatcher,
    failed: dict[Path, str],
) -> None:
    """Plays trials in processes of their own, several at once, the longest first, so that none is left for the end.

    **Edge cases**: an interrupt ends all of them. If this process is killed, they end by themselves, so that no run is
    played twice at once when all is started again. A run that is ended so goes on where it was, like one that crashed.
    """
    total = sum(trial.recipe.run.rounds for trial in trials)
    with processes(jobs, live_with_parent) as pool:
        longest_first = sorted(waiting, key=lambda trial: -trial.recipe.run.rounds)
        running = {pool.submit(_play_on_one_core, trial.recipe, trial.folder): trial for trial in longest_first}
        while running:
            for future in [future for future in running if future.done()]:
                _note(future.result(), running.pop(future), failed)
            watcher(sum(_rounds_done(trial, failed) for trial in trials), total)
            time.sleep(_LOOK if running else 0)


def play(recipe: Recipe, folder: Path) -> str | None:
    """Plays one trial in this process; returns why it cannot be played, if so."""
    from sordino.runs.folder import RunFolder
    from sordino.runs.run import run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SordinoWarning)  # many trials: what came of them stands in the table
        try:
            run(recipe, out=folder, resume=RunFolder(folder).begun, progress=False, idle_settings="warn")
        except SordinoError as error:
            return str(error)
    return None


def _play_on_one_core(recipe: Recipe, folder: Path) -> str | None:
    import torch

    torch.set_num_threads(1)
    return play(recipe, folder)


def finished(trial: PlannedRun) -> bool:
    """Returns whether the trial has its certificate.

    Raises:
        RecipeError: the folder holds a run of another recipe.
    """
    path = RunFolder(trial.folder).recipe_file
    if path.exists() and Recipe.load(path) != trial.recipe:
        raise RecipeError(f"{trial.folder} holds a run with other settings: name another --out, or remove it")
    return RunFolder(trial.folder).certificate_file.exists()


def _note(reason: str | None, trial: PlannedRun, failed: dict[Path, str]) -> None:
    if reason is not None:
        failed[trial.folder] = reason


def _rounds_done(trial: PlannedRun, failed: dict[Path, str]) -> int:
    if trial.folder in failed or RunFolder(trial.folder).certificate_file.exists():
        return trial.recipe.run.rounds
    path = RunFolder(trial.folder).metrics_file
    return path.read_text().count("\n") if path.exists() else 0

"""Plays trials in parallel processes; what is finished is never played again, what was cut short goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

from sordino import recipe as recipes
from sordino.errors import RecipeError, SordinoError
from sordino.recipe import Recipe

Watcher = Callable[[int, int], None]
"""Is told how many rounds have been played, and how many there are in all."""
_LOOK = 0.5


class Trial(Protocol):
    """A run that is to be played: what, and where."""

    @property
    def recipe(self) -> Recipe:
        """What is played."""

    @property
    def folder(self) -> Path:
        """Where it is kept."""


def play_all(trials: Sequence[Trial], jobs: int, watcher: Watcher) -> dict[Path, str]:
    """Plays what is not finished, and returns the folders of what cannot be, with the sentence that says why.

    **Edge cases**: a trial that was played before with another recipe is refused: the folder belongs to another
    comparison. Each process computes with one thread, so that a result does not depend on the number of jobs.
    """
    waiting = [trial for trial in trials if not finished(trial)]
    total = sum(trial.recipe.run.rounds for trial in trials)
    failed: dict[Path, str] = {}
    if not waiting:
        return failed
    with ProcessPoolExecutor(max(1, jobs), mp_context=get_context("spawn")) as pool:
        running = {pool.submit(play, trial.recipe, trial.folder): trial for trial in waiting}
        try:
            while running:
                for future in [future for future in running if future.done()]:
                    _collect(future, running.pop(future), failed)
                watcher(sum(_rounds_done(trial, failed) for trial in trials), total)
                time.sleep(_LOOK if running else 0)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def play(recipe: Recipe, folder: Path) -> str | None:
    """Plays one trial in this process; returns why it cannot be played, if so."""
    import torch

    from sordino.runner import run

    torch.set_num_threads(1)
    try:
        run(recipe, out=folder, resume=True)
    except SordinoError as error:
        return str(error)
    return None


def finished(trial: Trial) -> bool:
    """Returns whether the trial has its certificate.

    Raises:
        RecipeError: the folder holds a run of another recipe.
    """
    path = trial.folder / "recipe.toml"
    if path.exists() and recipes.read(path) != trial.recipe:
        raise RecipeError(f"{trial.folder} holds a run with other settings: name another --out, or remove it")
    return (trial.folder / "certificate.json").exists()


def _collect(future: Future[str | None], trial: Trial, failed: dict[Path, str]) -> None:
    reason = future.result()
    if reason is not None:
        failed[trial.folder] = reason


def _rounds_done(trial: Trial, failed: dict[Path, str]) -> int:
    if trial.folder in failed or (trial.folder / "certificate.json").exists():
        return trial.recipe.run.rounds
    path = trial.folder / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0

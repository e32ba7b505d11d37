"""Measures what `papers/estimates.py` tells: `python -m papers.rates [KIND …]`, on a core that does nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from papers.catalogue import EXPERIMENTS
from papers.estimates import RATES, Rate, kind, passed, tested
from papers.experiment_runner import ExperimentRunner
from papers.performing import TimeLimit, perform
from papers.planning import plan
from papers.run_store import RunStore
from papers.tasks import Task, rounded
from sordino.errors import SordinoError
from sordino.recipe import Recipe

_LONG = 4
"""Local steps that are enough to tell what one costs."""
_MORE = 1.0
"""Processor seconds that the rounds should take at least whose difference is looked at."""


def representative(named: str) -> Recipe:
    """Returns the first recipe of a kind that any figure plays in full, with few local steps."""
    runner = ExperimentRunner(Path(), quick=False, seeds=1)
    figures = [one for one in EXPERIMENTS.values() if one.kind == "training"]
    recipe = next(task.recipe for one in figures for task in plan(one, runner) if kind(task.recipe) == named)
    steps = None if recipe.train.steps is None else min(recipe.train.steps, _LONG)
    return recipe.but(train={"steps": steps}, run={"notes": False})


def measured(named: str, folder: Path) -> Rate:
    """Returns a kind's rate: of runs of one round, of several, and of several that are tested after each.

    **Edge cases**: what cannot be told from what else the machine does is 0, and has to be measured again.
    """
    recipe, store = representative(named), RunStore()
    rounds = 1 + max(2, min(40, round(_MORE / (RATES[named].trained * passed(recipe)))))
    plain, *others = (
        Task(recipe.but(run={"rounds": count, "evaluate_every": every, "seed": seed}))
        for seed, count, every in ((1, 1, 1), (0, 1, 1), (0, rounds, rounds), (0, rounds, 1))
    )  # the first one reads modules and data
    why = perform([plain, *others], store, folder, 1, lambda done, total: None, TimeLimit(1e6))
    if why is not None:
        raise SordinoError(why)
    one, several, looked = (store.lines[store.keys(task.what, task.recipe)[0]].cpu for task in others)
    look, each = (looked - several) / (rounds - 1), (several - one) / (rounds - 1)
    found = (each / passed(recipe), look / tested(recipe), one - each - look)
    return Rate(*(rounded(max(number, 0.0), 2) or 0.0 for number in found))


if __name__ == "__main__":
    with TemporaryDirectory() as room:
        for name in sys.argv[1:] or RATES:
            print(f'    "{name}": {tuple(measured(name, Path(room)))},', flush=True)

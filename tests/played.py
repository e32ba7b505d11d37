"""Small runs on digits for mechanism suites: compose as a recipe would, play, and read the ledger."""

from __future__ import annotations

from pathlib import Path

from sordino import recipe as recipes
from sordino.account.ledger.ledger import Ledger
from sordino.runs.runner import Outcome, run
from sordino.runs.setup import Cast, assemble

SMALL = (
    "partition.clients=24",
    "train.steps=3",
    "train.batch_size=16",
    "run.rounds=5",
    "run.evaluate_every=5",
    "budget.epsilon=8",
)


def cast(*settings: str) -> Cast:
    """Assembles a small run without playing it."""
    return assemble(recipes.read(None, [*SMALL, *settings]))


def play(folder: Path, *settings: str, resume: bool = False) -> Outcome:
    """Plays a small run."""
    return run(recipes.read(None, [*SMALL, *settings]), out=folder, resume=resume)


def charged(folder: Path) -> Ledger:
    """Opens the ledger of a run that was played."""
    return Ledger.open(folder / "ledger.db")

"""What suites play with: small runs on digits, read back from their ledgers, and stages made to order for parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sordino.account.ledger.ledger import Ledger
from sordino.audit.replay import replay
from sordino.data.federation import Federation
from sordino.mechanism import Aggregator, Mechanism, Perturber
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.runs.outcome import Outcome
from sordino.runs.run import run
from sordino.runs.setup import assemble
from sordino.stages import Bounded, Revealed, Sensitivity, Summed
from sordino.terms import Survivors, Terms, Turn, Vanished
from sordino.types import IntArray

SMALL = (
    "partition.clients=24",
    "train.steps=3",
    "train.batch_size=16",
    "run.rounds=5",
    "run.evaluate_every=5",
    "budget.epsilon=8",
    "mechanism.clip_norm=0.5",
    "server.learning_rate=4",
)


def cast(*settings: str) -> RunContext:
    """Assembles a small run without playing it."""
    return assemble(Recipe.load(None, [*SMALL, *settings]))


def play(folder: Path, *settings: str, resume: bool = False) -> Outcome:
    """Plays a small run."""
    return run(Recipe.load(None, [*SMALL, *settings]), out=folder, resume=resume, idle_settings="warn")


def trained(*settings: str, federation: Federation | None = None) -> Tensor:
    """Returns the model of a small run, drawn from streams that do not depend on the recipe: for comparisons."""
    recipe = Recipe.load(None, [*SMALL, *settings])
    return replay(recipe, federation or assemble(recipe).federation, 0).last


def charged(folder: Path) -> Ledger:
    """Opens the ledger of a run that was played."""
    return Ledger.open(folder / "private" / "ledger.db")


def first_turn(mechanism: Mechanism, width: int = 650, clients: int = 0, round_: int = 1) -> Turn:
    """Returns a turn under the mechanism's first knobs."""
    return Turn(Terms(round_, torch.zeros(width), mechanism.adapter.start(), np.arange(clients)), Streams(0))


def bounded_of(turn: Turn, rows: Tensor, clients: IntArray | None = None, order: int = 2, **more: Any) -> Bounded:
    """Returns rows that are stated to be within the turn's clip norm."""
    bound = Sensitivity(turn.knobs.clip_norm, order, "client", "the test says so")
    more = {"weights": torch.ones(len(rows)), "clipped": torch.zeros(len(rows)).bool(), "sensitivity": bound} | more
    return Bounded(np.arange(len(rows)) if clients is None else clients, rows, **more)


def summed_of(
    part: Perturber, aggregator: Aggregator, turn: Turn, *groups: Bounded, vanished: Vanished | None = None
) -> Summed:
    """Shields groups of clients, adds their messages, takes away what they reveal, and finishes the sum."""
    vanished = vanished or Vanished()
    survivors = Survivors(turn.round_, np.concatenate([np.empty(0, np.int64), *(group.clients for group in groups)]))
    partial = aggregator.start(turn.terms, groups[0].sensitivity)
    for group in groups:
        sent = part.shield(group, turn)
        partial = aggregator.add(partial, sent.message)
        revealed = None if sent.kept is None else part.reveal(sent.kept, survivors, turn)
        if revealed is not None:
            there = ~np.isin(revealed.clients, vanished.unmask)
            answers = (revealed.rows[there], revealed.squared_multipliers[there])
            partial = aggregator.subtract(partial, Revealed(revealed.clients[there], *answers))
    return aggregator.finish(partial, vanished)

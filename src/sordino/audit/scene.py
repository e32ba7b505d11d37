"""A mechanism on its smallest stage: a model of four weights, a few clients, and gradients made to order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sordino.audit.people import undeclared
from sordino.data.client_data import ClientData
from sordino.data.federation import Federation
from sordino.data.partition import PartitionTable
from sordino.data.public import PublicCounts
from sordino.mechanism import Mechanism
from sordino.recipe import Recipe
from sordino.runs.setup import assemble
from sordino.train.local import SummedSteps
from sordino.train.trainer import Trainer
from sordino.types import BoolArray, IntArray

CLIENTS = 4
"""Clients of the tiny federation: the one under attack, and others that the adversary knows."""
RECORDS = 2
"""Records of each client."""


@dataclass(frozen=True)
class Scene:
    """What an audit plays with."""

    mechanism: Mechanism
    trainer: Trainer
    federation: Federation
    width: int
    rounds: int
    delta: float
    tolerance: float = 0.0
    """Share of a cohort that may vanish before a round is aborted."""

    @property
    def clients(self) -> int:
        """Number of clients."""
        return self.federation.population

    @property
    def records(self) -> int:
        """Records of each client."""
        return int(self.federation.sizes()[0])

    @property
    def trained(self) -> bool:
        """Whether contributions are computed from records by real training; else the adversary sends what it likes."""
        return self.mechanism.unit == "record" or isinstance(self.mechanism.local, SummedSteps)


def stage(
    name: str, mode: str = "certified", settings: Sequence[str] = (), clients: int = CLIENTS, records: int = RECORDS
) -> Scene:
    """Returns the scene of a mechanism by name; `section.field=value` settings come on top (one round by default)."""
    own = [f"mechanism.name={name}", f"mechanism.mode={mode}", "run.rounds=1"]
    return of_recipe(Recipe.load(None, [*own, *settings]), clients, records)


def of_recipe(recipe: Recipe, clients: int = CLIENTS, records: int = RECORDS) -> Scene:
    """Returns the scene of a recipe's mechanism; its data and its model make way for the smallest there are."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    total = clients * records
    deal = PartitionTable(np.arange(0, total + 1, records), np.arange(total))
    x, y = torch.zeros(total, 1), torch.arange(total) % 2
    told = PublicCounts(clients, total, 2, sizes=True, test=True)
    federation = Federation("audit", x, y, x[:0], y[:0], classes=2, partition=deal, declared=told)
    context = assemble(undeclared(recipe), model, federation)
    trainer = Trainer(model, _steep, context.trainer.settings, "batched", None, context.mechanism.after_step)
    return Scene(
        context.mechanism,
        trainer,
        federation,
        context.layout.width,
        recipe.run.rounds,
        recipe.budget.delta,
        recipe.aggregate.tolerance or 0.0,
    )


def records_of(clients: IntArray, loud: BoolArray, loudness: float = 1.0, blank: int = RECORDS) -> ClientData:
    """Returns records for a crowd: blank ones for everybody, and one with a huge gradient where `loud` is set."""
    offsets = np.concatenate([[0], np.cumsum(blank + loud.astype(np.int64))])
    x, y = torch.zeros(int(offsets[-1]), 1), torch.ones(int(offsets[-1]), dtype=torch.int64)
    last = torch.from_numpy(offsets[1:][loud] - 1)
    x[last], y[last] = loudness, 0
    return ClientData(clients, offsets, x, y)


def _steep(outputs: Tensor, labels: Tensor) -> Tensor:
    """A loss whose gradient is huge for label 0 and never fades, and none for other labels."""
    return 1e4 * outputs[..., 0] * (labels == 0).to(outputs.dtype)

"""Real runs on the smallest federation there is, in two neighbouring worlds: what games about whole runs are played on.

Nothing is taken out of a run: recipe, books, rounds, certificate and folder are those of `sordino run`. A run takes a
fraction of a second, so such a game counts dozens of trials, which is enough where one look at a run tells everything.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

from sordino.account.certificate.document import CertificateDocument
from sordino.data.federation import Federation
from sordino.data.partition import PartitionTable
from sordino.data.public import PublicCounts
from sordino.errors import SordinoWarning
from sordino.recipe import Recipe
from sordino.runs.outcome import Outcome
from sordino.runs.run import run
from sordino.types import Adjacency

CLIENTS, RECORDS = 3, 2


class Halted(Exception):
    """A run was interrupted, as Ctrl-C does it."""


def small_model() -> nn.Module:
    """Returns a model of four weights, all zero."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def small_federation(
    present: bool = True, test: bool = True, adjacency: Adjacency = "add_remove", clients: int = CLIENTS
) -> Federation:
    """Returns blank clients, and at the end the target if it is `present`: its records move the model, theirs do not.

    Under `add_remove` a target that is not present is not there; else it is there, and as blank as everybody. What is
    declared is the same in both worlds. Each client also has a test record of its own; with `test` these are public,
    and the target's is in neither world.
    """
    count = clients if present or adjacency != "add_remove" else clients - 1
    total = count * RECORDS
    x, y = torch.zeros(total, 1), torch.arange(total) % 2
    told = PublicCounts(clients, clients * RECORDS, 2, most_records=RECORDS, sizes=False, test=test)
    if present:
        x[-RECORDS:], y[-RECORDS:] = 1.0, 0
    shown = clients - 1 if test else count
    test_x, test_y = torch.full((shown, 1), 0.5), torch.arange(shown) % 2
    if shown == clients:
        test_x[-1] = 1.0
    deal = PartitionTable(np.arange(0, total + 1, RECORDS), np.arange(total))
    return Federation("audit", x, y, test_x, test_y, classes=2, partition=deal, declared=told)


def small_run(
    out: Path,
    settings: Sequence[str],
    seed: int,
    federation: Federation,
    resume: bool = False,
    rounds: int | None = None,
) -> Outcome:
    """Plays a run on a small federation; with `rounds` it is interrupted after so many.

    Raises:
        Halted: it was.
    """
    recipe = Recipe.load(None, [*settings, f"run.seed={seed}"])

    def watcher(metrics: object) -> None:
        if rounds is not None and metrics["round"] == rounds:  # type: ignore[index]
            raise Halted

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SordinoWarning)  # that earlier runs spent on a ledger is the game
        return run(
            recipe, model=small_model(), federation=federation, out=out, resume=resume, watcher=watcher, progress=False
        )


def document_of(folder: Path) -> CertificateDocument:
    """Returns the certificate that a run published."""
    return CertificateDocument.from_json((folder / "public" / "certificate.json").read_text())


@contextmanager
def aside() -> Iterator[Path]:
    """Makes a folder for runs that nobody keeps: in memory where there is such a place, since runs sync every step."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with TemporaryDirectory(prefix="sordino-audit-", dir=memory if usable else None) as folder:
        yield Path(folder)

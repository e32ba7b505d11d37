"""Mistakes that no attack on a mechanism shows, and the laws that show them."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import played
from bugfarm.parts import short_key
from sordino import files
from sordino.account.certificate.certificate import certify
from sordino.account.ledger.ledger import Ledger
from sordino.aggregate.integers import word
from sordino.aggregate.secure import session
from sordino.aggregate.secure.graph import choose
from sordino.aggregate.secure.masks import Mask
from sordino.errors import BudgetExceeded, SordinoError
from sordino.random import streams as randomness
from sordino.random.streams import Streams
from sordino.runs import beginning
from sordino.runs.folder import RunFolder
from sordino.server.charging import Charging, Eligible

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Law:
    """A mistake, and a law that holds without it and breaks with it."""

    name: str
    story: str
    plant: Callable[[Patch], None]
    holds: Callable[[], bool]

    def found(self) -> bool:
        """Whether the law breaks once the mistake is planted."""
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            try:
                return not self.holds()
            except SordinoError:
                return True  # a check inside the product was faster


def _sums(fidelity: str) -> tuple[np.ndarray, np.ndarray]:
    clients, bits = np.arange(6), 20
    rows = np.random.default_rng(0).integers(0, 1 << bits, (6, 50)).astype(word(bits))
    topology = choose(6, dropout=0.3, corrupt=0.0)
    lost: Any = {"mask": {5}}
    played_ = session.secure_sum(
        rows,
        clients=clients,
        modulus_bits=bits,
        topology=topology,
        dropouts=lost,
        fidelity=fidelity,  # type: ignore[arg-type]
    )
    return played_.total, rows[:5].sum(0, dtype=np.uint64).astype(rows.dtype) & rows.dtype.type((1 << bits) - 1)


def secure_sum_is_the_plain_sum() -> bool:
    return all(np.array_equal(*_sums(fidelity)) for fidelity in ("masked", "full"))


def masked_vectors_are_unlike_their_vectors() -> bool:
    seen: list[np.ndarray] = []
    real = session.add_masks

    def spy(vector: np.ndarray, masks: list[Mask]) -> None:
        before = vector.copy()
        real(vector, masks)
        seen.append(vector != before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "add_masks", spy)
        _sums("masked")
    return float(np.mean(seen)) > 0.99


def streams_of_clients_differ() -> bool:
    draws = Streams(0).normals("shield", 1, np.arange(4000), 2).numpy()
    return len(np.unique(draws, axis=0)) == len(draws)


def rounds_and_ledger_agree() -> bool:
    with tempfile.TemporaryDirectory() as aside:
        path = Path(aside) / "run"
        played.play(path, "mechanism.name=fed_ldp", "select.kind=fixed", "select.size=7", "dropout.rate=0.2")
        folder = RunFolder(path)
        metrics = folder.metrics()
        with Ledger.open(folder.ledger) as ledger:
            return int(ledger.participations.sum()) == sum(line["survivors"] for line in metrics)


def nobody_pays_more_than_the_budget() -> bool:
    """Several runs on one ledger, whose opening releases ask the budget like every other."""
    with tempfile.TemporaryDirectory() as aside, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = ("mechanism.name=a_dpfl", "run.rounds=1", "budget.epsilon=2", f"ledger.path={aside}/ledger.db")
        for number in range(5):
            with suppress(BudgetExceeded):
                played.play(Path(aside) / f"run-{number}", *settings)
        with Ledger.open(Path(aside) / "ledger.db", write=False) as ledger:
            told = [entry.epsilon for entry in certify(ledger, 1e-5).entries if entry.unit == "record"]
    return all(epsilon is not None and epsilon <= 2 * (1 + 1e-6) for epsilon in told)


def names_of_new_folders_are_synced() -> bool:
    """A power cut after the first release must not lose the folder that holds the ledger."""
    synced, system = set[str](), os.fsync

    def fsync(handle: int) -> None:
        synced.add(os.path.realpath(f"/proc/self/fd/{handle}"))
        system(handle)

    with tempfile.TemporaryDirectory() as aside, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        folder = RunFolder(Path(aside).resolve() / "runs" / "one")
        folder.prepare()
        made = (folder.path.parent, folder.path, folder.public, folder.private)
        return all(str(path.parent) in synced for path in made)


def _opens_without_asking(patch: Patch) -> None:
    everybody = Eligible(np.ones(24, bool), np.empty(0, np.int64))
    real = Charging.eligible
    patch.setattr(Charging, "eligible", lambda self, at, *rest: everybody if at == 0 else real(self, at, *rest))
    patch.setattr(beginning, "refuse_if_spent", lambda context: None)


def _forgets_to_sync(patch: Patch) -> None:
    patch.setattr(files, "sync", lambda path: None)


def _same_sign(patch: Patch) -> None:
    real = session.pair_mask
    for module in ("session", "client", "recovery"):
        target = f"sordino.aggregate.secure.{module}.pair_mask"
        patch.setattr(target, lambda *args: (real(*args)[0], 1), raising=False)


def _no_masks(patch: Patch) -> None:
    patch.setattr(session, "add_masks", lambda vector, masks: None)


def _short_seeds(patch: Patch) -> None:
    patch.setattr(randomness, "_key", short_key)


def _drops_a_sender(patch: Patch) -> None:
    real = Charging.settle
    patch.setattr(Charging, "settle", lambda self, at, senders, *rest: real(self, at, senders[:-1], *rest))


LAWS: tuple[Law, ...] = (
    Law("MasksOfTheSameSign", "masks that cancel wrongly", _same_sign, secure_sum_is_the_plain_sum),
    Law("NoMasks", "masks that are all zero", _no_masks, masked_vectors_are_unlike_their_vectors),
    Law("ShortSeeds", "streams from 16-bit seeds", _short_seeds, streams_of_clients_differ),
    Law(
        "OpensWithoutAsking",
        "an opening release that does not ask the budget (L2)",
        _opens_without_asking,
        nobody_pays_more_than_the_budget,
    ),
    Law(
        "ForgetsToSync",
        "a run folder whose name is not durable (L7)",
        _forgets_to_sync,
        names_of_new_folders_are_synced,
    ),
    Law("DropsASender", "a sender that the books forget", _drops_a_sender, rounds_and_ledger_agree),
)
"""Every bug that a law finds."""

"""What the adversary chooses, and what is public while it plays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sordino.audit.release import release
from sordino.audit.scene import CLIENTS, RECORDS, Scene, records
from sordino.events import Charge, Guarantee
from sordino.mechanism import Knobs, Turn, Vanished
from sordino.randomness import Streams
from sordino.stages import Trace, Update
from sordino.store import ClientStore
from sordino.train.local import LocalSteps
from sordino.train.optimizers import optimizer
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class Attack:
    """The inputs that the adversary chooses: the target's raw update in each round, and what everybody else does."""

    row: Tensor
    """The target's raw update."""
    pattern: tuple[float, ...]
    """What it is multiplied by in each round."""
    others: Tensor
    """Everybody else's raw update, every round."""
    size: int = RECORDS
    """How many records the target says it has."""
    silent: int = 0
    """How many others vanish before they send anything."""
    stuck: int = 0
    """How many others vanish after they sent, before they reveal anything."""

    @property
    def vanished(self) -> Vanished:
        """Who of the others vanishes."""
        last = np.arange(CLIENTS)[::-1]
        silent, stuck = last[: self.silent], last[self.silent : self.silent + self.stuck]
        return Vanished(np.empty(0, np.int64), np.sort(silent), np.sort(stuck))

    def describe(self) -> str:
        """Returns the attack in words."""
        finite = bool(torch.isfinite(self.row).all())
        size = f"norm {float(self.row.norm()):.3g}" if finite else "entries that are not finite"
        words = [f"an update of {size} along ({', '.join(f'{v:g}' for v in _direction(self.row))})"]
        if len(set(self.pattern)) > 1:
            words.append(f"times ({', '.join(f'{v:g}' for v in self.pattern)}) over the rounds")
        if self.size != RECORDS:
            words.append(f"from a client that says it has {self.size:,} records")
        if self.silent or self.stuck:
            words.append(f"while {self.silent} clients vanish before they send and {self.stuck} before they reveal")
        return " ".join(words)


def _direction(row: Tensor) -> list[float]:
    signs = row.nan_to_num(nan=0.0, posinf=1.0, neginf=-1.0)
    return [round(float(v), 2) for v in signs / max(float(signs.abs().max()), 1e-30)]


@dataclass(frozen=True)
class Path:
    """What is public in each round: knobs that a real play went through, and what the mechanism quotes for them."""

    knobs: tuple[Knobs, ...]
    quotes: tuple[tuple[Charge, ...], ...]

    def charges(self, guarantee: Guarantee) -> tuple[Charge, ...]:
        """Returns what the rounds cost in one guarantee."""
        return tuple(charge for quote in self.quotes for charge in quote if charge.guarantee == guarantee)


def walk(scene: Scene, seed: int) -> Path:
    """Plays the rounds once, with clients that say nothing, and returns the public path that this takes.

    A certificate holds for every path that releases could have taken, so one that was taken is fair to attack on.
    """
    mechanism, store, knobs, quotes = scene.mechanism, ClientStore(), [], []
    turn = Turn(0, torch.zeros(scene.width), {}, Streams(seed), store, np.arange(CLIENTS))
    current: Knobs = dict(mechanism.adapter.start())
    if mechanism.opening is not None:
        current = {**current, **mechanism.opening.open(scene.federation, turn)}
    for round_ in range(1, scene.rounds + 1):
        turn = replace(turn, round_=round_, knobs=current)
        knobs.append(current)
        quotes.append(mechanism.quote(turn))
        bounded = mechanism.bounder.bound(raw(scene, turn, torch.zeros(CLIENTS, scene.width)), turn)
        seen = release(mechanism, turn, bounded, Vanished(*(np.empty(0, np.int64) for _ in range(3))))
        store.commit()
        current = mechanism.adapter.adapt(turn, seen.released, {"accuracy": 0.5, "loss": 1.0})
    return Path(tuple(knobs), tuple(quotes))


def raw(scene: Scene, turn: Turn, rows: Tensor, sizes: IntArray | None = None, loud: BoolArray | None = None) -> Update:
    """Returns the updates of a turn's cohort: chosen rows (client unit), or what real training makes of records."""
    mechanism, clients = scene.mechanism, turn.cohort
    if mechanism.unit == "record":
        present = np.zeros(len(clients), bool) if loud is None else loud
        return mechanism.local.train(scene.trainer, turn, records(clients, present))
    traced = isinstance(mechanism.local, LocalSteps) and mechanism.local.trace
    return Update(
        clients,
        rows,
        np.full(len(clients), RECORDS) if sizes is None else sizes,
        _trace(scene, turn, rows) if traced else None,
    )


def _trace(scene: Scene, turn: Turn, rows: Tensor) -> Trace:
    """Returns the last steps of a training that stood still at its result: w_{K−1} = w_K, both gradients zero."""
    still = torch.zeros_like(rows)
    state = optimizer(scene.trainer.settings).init(rows)
    return Trace(turn.weights + rows, still, still, state, steps=2)

"""Private state of clients between rounds: kept on disk, for those who took part, safe against a crash.

In a deployment each client keeps its own row; in simulation one file holds them all. Rows lie in slots of that file and
are read and written one at a time, so a hundred thousand clients cost disk and not memory. A write goes to a free slot
and only becomes the client's row when the round is committed, so a run that is killed in the middle of a round goes on
from the committed rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.client_state import ClientState
from sordino.errors import DataError
from sordino.files import PRIVATE, writing
from sordino.types import BoolArray, IntArray

Rows = NDArray[np.float32]


@dataclass
class ClientStore:
    """Rows of float32 by client id: `read` and `write` in a round, then `commit`.

    **Formal guarantees**: a committed row is never overwritten before the next commit, so the index that a checkpoint
    holds stays true until the next checkpoint is written. Memory is that of the rows in hand plus an index of some
    hundred bytes a client; disk is one row a client that took part, plus one a member of a cohort.
    **Edge cases**: a client that never took part has no row (`read` says so in its mask); writing twice in a round
    keeps the last; rows of another width, and a file that is shorter than its index says, are refused; without a path
    the rows live in memory (for tests and one-row clients).
    """

    path: Path | None = None
    width: int = 0
    slots: dict[int, int] = field(default_factory=dict)
    """Committed slot of each client."""
    _pending: dict[int, int] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)
    _shelf: dict[int, Rows] = field(default_factory=dict)
    """The rows themselves, where there is no file."""
    _top: int = 0

    def read(self, clients: IntArray) -> tuple[Tensor, BoolArray]:
        """Returns the committed rows `[clients, width]` (zeros where there is none) and which exist."""
        if not self.slots:
            return torch.zeros(len(clients), self.width), np.zeros(len(clients), bool)
        known = np.fromiter((int(c) in self.slots for c in clients), bool, len(clients))
        rows = np.zeros((len(clients), self.width), np.float32)
        places = np.flatnonzero(known)
        self._fetch(rows, places, [self.slots[int(c)] for c in clients[known]])
        return torch.from_numpy(rows), known

    def state(self, clients: IntArray) -> ClientState:
        """Returns what the clients remember; rows have no width as long as nobody remembers anything."""
        return ClientState(*self.read(clients))

    def remember(self, clients: IntArray, state: ClientState) -> None:
        """Keeps what the clients' side of a round returned; a state without width is nothing to keep."""
        if state.rows.shape[1]:
            self.write(clients, state.rows)

    def write(self, clients: IntArray, rows: Tensor) -> None:
        """Stores new rows, which count from the next `commit` on."""
        self.width = self.width or int(rows.shape[1])
        if tuple(rows.shape) != (len(clients), self.width):
            raise DataError(
                f"client state of shape {tuple(rows.shape)} does not fit {len(clients)} clients of width {self.width}: "
                "resume a run with the model and mechanism that it began with"
            )
        earlier = (self._pending.pop(int(c), None) for c in clients)
        self._free.extend(slot for slot in earlier if slot is not None)
        slots = [self._take() for _ in clients]
        self._put(slots, rows.detach().to(torch.float32).contiguous().numpy())
        self._pending.update(zip((int(c) for c in clients), slots, strict=True))

    def commit(self) -> Mapping[int, int]:
        """Makes the round's writes durable and returns the index to keep in the checkpoint."""
        if self.path is not None and self._pending:
            with writing(self.path), self.path.open("r+b") as file:
                os.fsync(file.fileno())
        self._free.extend(self.slots[c] for c in self._pending if c in self.slots)
        self.slots.update(self._pending)
        self._pending.clear()
        return self.slots

    def restore(self, clients: IntArray, slots: IntArray, width: int) -> None:
        """Returns to the index of a checkpoint; every other slot is free again.

        Raises:
            DataError: the file is gone or too short. Going on without it would reuse noise that nobody remembers.
        """
        self.width = width
        self.slots = {int(c): int(s) for c, s in zip(clients, slots, strict=True)}
        self._pending.clear()
        self._top = max(self.slots.values(), default=-1) + 1
        used = set(self.slots.values())
        self._free = [slot for slot in range(self._top) if slot not in used]
        if self.path is not None and self._top:
            size = self.path.stat().st_size if self.path.exists() else 0
            if size < self._top * self._row:
                raise DataError(f"{self.path} holds fewer client rows than its checkpoint: bring back the whole folder")

    @property
    def _row(self) -> int:
        return self.width * 4

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        self._top += 1
        return self._top - 1

    def _fetch(self, out: Rows, places: IntArray, slots: Sequence[int]) -> None:
        if self.path is None:
            for place, slot in zip(places, slots, strict=True):
                out[place] = self._shelf[slot]
        elif slots:
            with self.path.open("rb", buffering=0) as file:
                for place, slot in zip(places, slots, strict=True):
                    file.seek(slot * self._row)
                    if file.readinto(memoryview(out[place]).cast("B")) != self._row:
                        raise DataError(f"{self.path} is too short for its index: bring back the whole folder")

    def _put(self, slots: Sequence[int], rows: Rows) -> None:
        if self.path is None:
            self._shelf.update((slot, row.copy()) for slot, row in zip(slots, rows, strict=True))
            return
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, PRIVATE))
            with self.path.open("r+b") as file:  # buffered, so that a row is written whole or refused
                for slot, row in zip(slots, rows, strict=True):
                    file.seek(slot * self._row)
                    file.write(memoryview(row).cast("B"))

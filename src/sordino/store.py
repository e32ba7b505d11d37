"""Private state of clients between rounds: kept on disk, for those who took part, safe against a crash.

In a deployment each client keeps its own row; in simulation one file holds them all. Rows live in slots of a
memory-mapped file, so 100,000 clients cost disk, not memory. A write goes to a free slot and only becomes the client's
row when the round is committed, so a run that is killed in the middle of a round resumes from the committed rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.types import BoolArray, IntArray

_GROWTH = 1024


@dataclass
class ClientStore:
    """Rows of float32 by client id: `read` and `write` in a round, then `commit`.

    **Edge cases**: a client that never took part has no row (`read` says so in its mask); writing twice in a round
    keeps the last; without a folder the rows live in memory (for tests and one-row clients).
    """

    path: Path | None = None
    width: int = 0
    slots: dict[int, int] = field(default_factory=dict)
    """Committed slot of each client."""
    _pending: dict[int, int] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)
    _rows: NDArray[np.float32] | None = None
    _top: int = 0

    def read(self, clients: IntArray) -> tuple[Tensor, BoolArray]:
        """Returns the committed rows `[clients, width]` (zeros where there is none) and which exist."""
        known = np.fromiter((int(c) in self.slots for c in clients), bool, len(clients))
        rows = np.zeros((len(clients), self.width), np.float32)
        if known.any():
            assert self._rows is not None
            rows[known] = self._rows[[self.slots[int(c)] for c in clients[known]]]
        return torch.from_numpy(rows), known

    def write(self, clients: IntArray, rows: Tensor) -> None:
        """Stores new rows, which count from the next `commit` on."""
        if self.width == 0:
            self.width = int(rows.shape[1])
        taken = [self._pending.pop(int(c), None) for c in clients]
        self._free.extend(slot for slot in taken if slot is not None)
        slots = [self._take() for _ in clients]
        assert self._rows is not None or not slots
        if slots and self._rows is not None:
            self._rows[slots] = rows.detach().numpy()
        self._pending.update(zip((int(c) for c in clients), slots, strict=True))

    def commit(self) -> Mapping[int, int]:
        """Makes the round's writes durable and returns the index to keep in the checkpoint."""
        if isinstance(self._rows, np.memmap) and self._pending:
            self._rows.flush()
        self._free.extend(self.slots[c] for c in self._pending if c in self.slots)
        self.slots.update(self._pending)
        self._pending.clear()
        return self.slots

    def restore(self, clients: IntArray, slots: IntArray, width: int) -> None:
        """Returns to the index of a checkpoint; every other slot is free again."""
        self.width = width
        self.slots = {int(c): int(s) for c, s in zip(clients, slots, strict=True)}
        self._pending.clear()
        self._top = max(self.slots.values(), default=-1) + 1
        used = set(self.slots.values())
        self._free = [slot for slot in range(self._top) if slot not in used]
        self._grow(self._top)

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        self._top += 1
        self._grow(self._top)
        return self._top - 1

    def _grow(self, needed: int) -> None:
        have = 0 if self._rows is None else len(self._rows)
        if needed <= have or self.width == 0:
            return
        rows = max(needed, have + min(max(have, 16), _GROWTH))
        if self.path is None:
            grown: NDArray[np.float32] = np.zeros((rows, self.width), np.float32)
            grown[:have] = self._rows if self._rows is not None else 0
            self._rows = grown
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        self._rows = None
        with self.path.open("r+b") as file:
            file.truncate(rows * self.width * 4)
        self._rows = np.memmap(self.path, np.float32, "r+", shape=(rows, self.width))

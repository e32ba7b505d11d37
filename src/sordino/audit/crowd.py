"""Randomness and memory for a crowd: what streams and stores promise, for a hundred thousand clients in one call."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sordino.client_state import ClientState
from sordino.random import normals as gaussian
from sordino.random.keystream import SharedKeystream, named_key
from sordino.random.streams import SERVER, Streams
from sordino.runs.client_store import ClientStore
from sordino.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class CrowdStreams:
    """The streams of a simulation, but the random words of one call come from one generator: much faster.

    **Formal guarantees**: what an audit relies on. Different (purpose, round, client) have independent draws; the same
    one has the same draws, within a call and in every call for the same set of clients, so a part that forgets the
    round or mixes up clients uses the same noise twice here too, and is found.
    """

    seed: int

    @property
    def simulation(self) -> bool:
        return True

    def generator(self, purpose: str, round_: int = 0, client: int = SERVER) -> np.random.Generator:
        return Streams(self.seed).generator(purpose, round_, client)

    def normals(self, purpose: str, round_: int, clients: IntArray, width: int) -> Tensor:
        distinct, place = np.unique(clients, return_inverse=True)
        bits = self.generator(f"{purpose}/{len(distinct)}/{distinct[:1]}", round_).bit_generator
        out = np.empty((len(distinct), width), np.float32)
        words = gaussian.words_for(out)
        for first in range(0, len(out), max(1, len(words))):
            some = out[first : first + len(words)]
            drawn = bits.random_raw(len(some) * words.shape[1]).reshape(len(some), -1)
            gaussian.fill(some, drawn)
        return torch.from_numpy(out if len(distinct) == len(clients) and (np.diff(clients) > 0).all() else out[place])

    def keys(self, purpose: str, round_: int, clients: IntArray) -> SharedKeystream:
        # a client's own id is its row's number, so the same client has the same draws in every call
        return SharedKeystream(named_key(f"{self.seed}/{purpose}/{round_}/crowd"), np.asarray(clients, np.int64))

    def uniforms(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> FloatArray:
        return Streams(self.seed).uniforms(purpose, round_, clients, sizes, turns)

    def orders(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> IntArray:
        return Streams(self.seed).orders(purpose, round_, clients, sizes, turns)


@dataclass
class CrowdStore(ClientStore):
    """A client store as one array by client id: what is written counts from the next commit on."""

    _kept: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    _known: BoolArray = field(default_factory=lambda: np.empty(0, bool))
    _written: list[tuple[IntArray, Tensor]] = field(default_factory=list)

    def read(self, clients: IntArray) -> tuple[Tensor, BoolArray]:
        if not len(self._known):
            return torch.zeros(len(clients), self.width), np.zeros(len(clients), bool)
        return self._kept[torch.from_numpy(clients)], self._known[clients]

    def write(self, clients: IntArray, rows: Tensor) -> None:
        self.width = int(rows.shape[1])
        self._written.append((clients, rows))

    def keep(self, clients: IntArray, state: ClientState | None) -> None:
        """Keeps what a part returned, if it returned anything to keep."""
        if state is not None:
            self.remember(clients, state)

    def commit(self) -> dict[int, int]:
        for clients, rows in self._written:
            room = int(clients.max()) + 1
            if room > len(self._known):
                self._known = np.concatenate([self._known, np.zeros(room - len(self._known), bool)])
                kept = torch.zeros(room, self.width)
                kept[: len(self._kept)] = self._kept if len(self._kept) else kept[:0]
                self._kept = kept
            self._kept[torch.from_numpy(clients)] = rows.to(torch.float32)
            self._known[clients] = True
        self._written.clear()
        return {}

"""Where randomness comes from: keyed streams in simulation, the operating system in deployment.

A stream is named by (run, purpose, round, client) and nothing else, so chunking, ordering and restarts change no draw.
A run's own name is made from its recipe, its data and what its ledger held before (`runs/books.py`): the same run on a
fresh ledger repeats to the bit, and two runs on one ledger share no draw.
The key is a 128-bit hash of that name: two clients can never share a stream by a short seed (a 32-bit seed, which is
what `torch.Generator` really uses, collides after some 65,000 streams).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.random import normals as gaussian
from sordino.random import threefry
from sordino.random.keystream import Keys, fresh_key, named_key
from sordino.types import FloatArray, IntArray

SERVER = -1
"""The client id under which the server draws."""


class Randomness(Protocol):
    """Source of all random draws of a run."""

    @property
    def simulation(self) -> bool:
        """Whether the draws can be repeated by whoever knows the seed (never true in a deployment)."""

    def generator(self, purpose: str, round_: int = 0, client: int = SERVER) -> np.random.Generator:
        """Returns a fresh generator for one named stream."""

    def normals(self, purpose: str, round_: int, clients: IntArray, width: int) -> Tensor:
        """Returns independent N(0, 1) draws, float32 `[clients, width]`; each row has its own stream."""

    def keys(self, purpose: str, round_: int, clients: IntArray) -> Keys:
        """Returns what the exact noise of each client follows from (`random/noise.py`): a key of its own stream."""

    def uniforms(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> FloatArray:
        """Returns `sizes[k]` draws from U[0, 1) for each client, one client after the other.

        Args:
            purpose: what the draws are for.
            round_: the round.
            clients: whose draws.
            sizes: how many draws each client gets.
            turns: which time in this round each client draws (an epoch, a local step); each turn is a fresh stream.
        """

    def orders(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> IntArray:
        """Returns a random order of 0 … sizes[k]−1 for each client, one client after the other."""


@dataclass(frozen=True)
class Streams:
    """Repeatable streams for simulation: same name, same run, to the bit."""

    seed: int | str

    @property
    def simulation(self) -> bool:
        return True

    def generator(self, purpose: str, round_: int = 0, client: int = SERVER) -> np.random.Generator:
        return np.random.Generator(self._bits(purpose, round_, client))

    def _bits(self, purpose: str, round_: int, client: int) -> np.random.Philox:
        return np.random.Philox(key=_key(f"{self.seed}/{purpose}/{round_}/{client}"))

    def normals(self, purpose: str, round_: int, clients: IntArray, width: int) -> Tensor:
        out = np.empty((len(clients), width), np.float32)
        words = gaussian.words_for(out)
        for first in range(0, len(out), max(1, len(words))):
            some = out[first : first + len(words)]
            for row, client in zip(words, clients[first : first + len(words)], strict=False):
                row[:] = self._bits(purpose, round_, int(client)).random_raw(len(row))
            gaussian.fill(some, words[: len(some)])
        return torch.from_numpy(out)

    def keys(self, purpose: str, round_: int, clients: IntArray) -> list[bytes]:
        return [named_key(f"{self.seed}/{purpose}/{round_}/{client}") for client in clients.tolist()]

    def uniforms(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> FloatArray:
        # clients and turns go into the counter of a block cipher under one key: distinct by construction
        key = _key(f"{self.seed}/{purpose}/{round_}/each")
        place = _places(sizes).astype(np.uint64)
        turn = np.repeat(np.broadcast_to(np.asarray(turns, np.uint64), len(sizes)), sizes)
        client = np.repeat(np.asarray(clients, np.int64).view(np.uint64), sizes)
        words = threefry.words(key, client, (turn << np.uint64(32)) | place)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def orders(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> IntArray:
        return _ranked(self.uniforms(purpose, round_, clients, sizes, turns), sizes)


@dataclass(frozen=True)
class Entropy:
    """Operating-system entropy for deployment: every call is fresh, nothing can be repeated."""

    @property
    def simulation(self) -> bool:
        return False

    def generator(self, purpose: str, round_: int = 0, client: int = SERVER) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=np.frombuffer(secrets.token_bytes(16), np.uint64)))

    def normals(self, purpose: str, round_: int, clients: IntArray, width: int) -> Tensor:
        draws = [self.generator(purpose).standard_normal(width, dtype=np.float32) for _ in clients]
        return torch.from_numpy(np.stack(draws) if draws else np.empty((0, width), np.float32))

    def keys(self, purpose: str, round_: int, clients: IntArray) -> list[bytes]:
        return [fresh_key() for _ in clients]

    def uniforms(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> FloatArray:
        return self.generator(purpose).random(int(np.sum(sizes)))

    def orders(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> IntArray:
        return _ranked(self.uniforms(purpose, round_, clients, sizes), sizes)


def _key(name: str) -> NDArray[np.uint64]:
    """Returns the 128-bit key of a stream's name."""
    return np.frombuffer(hashlib.blake2b(name.encode(), digest_size=16, person=b"sordino.stream").digest(), np.uint64)


def _places(sizes: IntArray) -> IntArray:
    """Returns 0 … sizes[k]−1 for each k, one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)


def _ranked(draws: FloatArray, sizes: IntArray) -> IntArray:
    """Returns, within each client's stretch of draws, the places in ascending order of their draws."""
    if len(sizes) and (sizes == sizes[0]).all():
        return np.argsort(draws.reshape(len(sizes), -1), axis=1).ravel()
    owner = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.cumsum(sizes) - sizes
    return np.lexsort((draws, owner)) - starts[owner]

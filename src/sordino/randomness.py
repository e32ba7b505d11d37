"""Where randomness comes from: keyed streams in simulation, the operating system in deployment.

A stream is named by (seed, purpose, round, client) and nothing else, so chunking, ordering and restarts change no draw.
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
from torch import Tensor

from sordino.types import IntArray

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


@dataclass(frozen=True)
class Streams:
    """Repeatable streams for simulation: same seed, same run, to the bit."""

    seed: int

    @property
    def simulation(self) -> bool:
        return True

    def generator(self, purpose: str, round_: int = 0, client: int = SERVER) -> np.random.Generator:
        name = f"{self.seed}/{purpose}/{round_}/{client}".encode()
        key = np.frombuffer(hashlib.blake2b(name, digest_size=16, person=b"sordino.stream").digest(), np.uint64)
        return np.random.Generator(np.random.Philox(key=key))

    def normals(self, purpose: str, round_: int, clients: IntArray, width: int) -> Tensor:
        out = np.empty((len(clients), width), np.float32)
        for row, client in zip(out, clients, strict=True):
            self.generator(purpose, round_, int(client)).standard_normal(out=row, dtype=np.float32)
        return torch.from_numpy(out)


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

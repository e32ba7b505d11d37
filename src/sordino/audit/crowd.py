"""Randomness for a crowd: many trials in one call, each client's draws its own, and equal names equal draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.randomness import SERVER, Streams
from sordino.types import FloatArray, IntArray


@dataclass(frozen=True)
class CrowdStreams:
    """The streams of a simulation, but all rows of one call come from one generator: a thousand times faster.

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
        crowd = f"{purpose}/{len(distinct)}/{distinct[0] if len(distinct) else 0}"
        out = np.empty((len(distinct), width), np.float32)
        self.generator(crowd, round_).standard_normal(out=out, dtype=np.float32)
        return torch.from_numpy(out if len(distinct) == len(clients) and (np.diff(clients) > 0).all() else out[place])

    def uniforms(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> FloatArray:
        return Streams(self.seed).uniforms(purpose, round_, clients, sizes, turns)

    def orders(
        self, purpose: str, round_: int, clients: IntArray, sizes: IntArray, turns: IntArray | int = 0
    ) -> IntArray:
        return Streams(self.seed).orders(purpose, round_, clients, sizes, turns)

"""Gaussian noise where one party adds all of it: each client (local trust) or the server (central trust)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from sordino.events import GaussianDpEvent
from sordino.mechanism import Prices, Turn
from sordino.perturb.price import prices
from sordino.random.streams import SERVER
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import Adjacency, IntArray, Unit

SERVER_ID: IntArray = np.array([SERVER])


@dataclass(frozen=True)
class LocalGaussian:
    """Every client adds N(0, (noise_multiplier · clip_norm)²) to its own message.

    **Formal guarantees**: unit client, trust local. The message is private by itself: sensitivity clip_norm under
    `zero_out`, 2·clip_norm under `replace`; a participation costs one Gaussian of that multiplier.
    **Edge cases**: noise is keyed by (round, client): never shared, never reused.
    """

    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        stddev = turn.knob("noise_multiplier") * turn.knob("clip_norm")
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return Shielded(bounded.clients, bounded.rows + noise.mul_(stddev), bounded.weights)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        each = turn.knob("noise_multiplier") * turn.knob("clip_norm")
        return Released(summed.total / summed.weight, each * math.sqrt(len(summed.survivors)) / summed.weight)

    def price(self, turn: Turn) -> Prices:
        return prices(self.unit, "local", self.adjacency, turn.knob("noise_multiplier"), GaussianDpEvent)


@dataclass(frozen=True)
class CentralGaussian:
    """A trusted server adds N(0, (noise_multiplier · clip_norm)²) to the sum.

    **Formal guarantees**: trust central. The sum moves by at most clip_norm when one unit comes or goes, and the
    denominator is a public constant. The server itself sees everything, and its price says so.
    """

    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        return Shielded(bounded.clients, bounded.rows, bounded.weights)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        stddev = turn.knob("noise_multiplier") * turn.knob("clip_norm")
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(summed.total))[0]
        return Released((summed.total + noise.mul_(stddev)) / summed.weight, stddev / summed.weight)

    def price(self, turn: Turn) -> Prices:
        return prices(self.unit, "central", self.adjacency, turn.knob("noise_multiplier"), GaussianDpEvent)

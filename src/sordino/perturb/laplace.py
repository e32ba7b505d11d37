"""Laplace noise on L1-clipped updates, added by each client."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.events import LaplaceDpEvent
from sordino.mechanism import Prices, Turn
from sordino.perturb.price import prices
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import Adjacency, IntArray, Unit


@dataclass(frozen=True)
class LocalLaplace:
    """Every client adds Laplace noise of scale noise_multiplier · clip_norm to each coordinate; clip_norm is in L1.

    **Formal guarantees**: unit client, trust local; L1 sensitivity clip_norm under `zero_out`, twice that under
    `replace`. A shift a of L1 norm Δ over several coordinates is reached by moving one coordinate at a time; the
    trade-off functions of such steps compose as in group privacy, and for a log-concave location family that bound is
    the one-dimensional shift by Δ itself. So the one-dimensional Laplace event prices the vector.
    """

    unit: Unit = "client"
    adjacency: Adjacency = "zero_out"

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        scale = turn.knob("noise_multiplier") * turn.knob("clip_norm")
        width = bounded.rows.shape[1]
        noise = np.stack(
            [turn.randomness.generator("shield", turn.round_, int(c)).laplace(0, scale, width) for c in bounded.clients]
        )
        return Shielded(bounded.clients, bounded.rows + torch.from_numpy(noise).float(), bounded.weights)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        each = math.sqrt(2) * turn.knob("noise_multiplier") * turn.knob("clip_norm")
        return Released(summed.total / summed.weight, each * math.sqrt(len(summed.survivors)) / summed.weight)

    def price(self, turn: Turn) -> Prices:
        return prices(self.unit, "local", self.adjacency, turn.knob("noise_multiplier"), LaplaceDpEvent)

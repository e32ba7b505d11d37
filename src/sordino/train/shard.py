"""A stretch of a cohort: what one core works on at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from sordino.data.client_data import Borrowed, ClientData
from sordino.train.channel import Selection
from sordino.types import IntArray


@dataclass(frozen=True, eq=False)
class Shard:
    """A stretch of a cohort, largest clients first, and where their records lie.

    Attributes:
        places: places of the clients in the cohort.
        clients: their ids.
        starts: where each client's records begin in `records`.
        sizes: how many each client has.
        records: rows of `x` and `y`.
        x: inputs, of this stretch or of more.
        y: labels.
    """

    places: IntArray
    clients: IntArray
    starts: IntArray
    sizes: IntArray
    records: IntArray
    x: Tensor
    y: Tensor

    @classmethod
    def of(cls, data: ClientData, stretch: slice) -> Shard:
        """Returns a stretch of the cohort, without a copy of its records."""
        first, last = int(data.offsets[stretch.start]), int(data.offsets[stretch.stop])
        order = np.argsort(-data.sizes[stretch], kind="stable") + stretch.start
        who = (order, data.clients[order], data.offsets[order] - first, data.sizes[order])
        if isinstance(data, Borrowed):
            return cls(*who, data.records[first:last], data.source_x, data.source_y)
        # whole, so that the same tensors come again in the next round, and their numbers alone travel (`channel.py`)
        return cls(*who, np.arange(first, last), data.x, data.y)

    def __reduce__(self) -> tuple[Any, ...]:
        """Only the stretch's own records, or their numbers, travel to another process."""
        who = self.places, self.clients, self.starts, self.sizes
        return _arrived, (*who, Selection((self.x, self.y), self.records))


def _arrived(places: IntArray, clients: IntArray, starts: IntArray, sizes: IntArray, selection: Selection) -> Shard:
    return Shard(places, clients, starts, sizes, selection.records, *selection.sources)

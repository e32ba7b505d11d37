"""The records of a cohort: gathered, or left where they are until somebody looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sordino.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class ClientData:
    """The records of a cohort, one client after the other: client k's are x[offsets[k]:offsets[k + 1]]."""

    clients: IntArray
    offsets: IntArray
    x: Tensor
    y: Tensor

    @property
    def sizes(self) -> IntArray:
        """Number of records of each client."""
        return np.diff(self.offsets)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one record."""
        return tuple(self.x.shape[1:])

    @property
    def input_dtype(self) -> torch.dtype:
        """Floats, or whole numbers (a text's)."""
        return self.x.dtype

    def emptied(self) -> ClientData:
        """Returns the same clients without any record."""
        return ClientData(self.clients, np.zeros_like(self.offsets), self.x[:0], self.y[:0])

    def some(self, chosen: BoolArray) -> ClientData:
        """Returns the records of some of the clients, without a copy of them."""
        return self if chosen.all() else self._borrowed(chosen, np.arange(self.offsets[-1]), self.x, self.y)

    def ordered(self, order: IntArray) -> ClientData:
        """Returns all clients, in another order, without a copy of their records."""
        if (order[1:] > order[:-1]).all():
            return self
        sizes = self.sizes[order]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[order] - offsets[:-1], sizes)
        return Borrowed(self.clients[order], offsets, *self._lent(places))

    def _lent(self, places: IntArray) -> tuple[IntArray, Tensor, Tensor]:
        """Returns which records of which tensors lie at some places."""
        return places, self.x, self.y

    def _borrowed(self, chosen: BoolArray, records: IntArray, x: Tensor, y: Tensor) -> Borrowed:
        sizes = self.sizes
        offsets = np.concatenate([[0], np.cumsum(sizes[chosen])])
        return Borrowed(self.clients[chosen], offsets, records[np.repeat(chosen, sizes)], x, y)


class Borrowed(ClientData):
    """The same records, left where they are in the federation's tensors: gathered only where somebody looks."""

    def __init__(self, clients: IntArray, offsets: IntArray, records: IntArray, x: Tensor, y: Tensor) -> None:
        vars(self).update(clients=clients, offsets=offsets, records=records, source_x=x, source_y=y)

    records: IntArray
    source_x: Tensor
    source_y: Tensor

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.source_x.shape[1:])

    @property
    def input_dtype(self) -> torch.dtype:
        return self.source_x.dtype

    def some(self, chosen: BoolArray) -> ClientData:
        return self if chosen.all() else self._borrowed(chosen, self.records, self.source_x, self.source_y)

    def _lent(self, places: IntArray) -> tuple[IntArray, Tensor, Tensor]:
        return self.records[places], self.source_x, self.source_y

    @cached_property
    def x(self) -> Tensor:
        return self.source_x.index_select(0, torch.from_numpy(self.records))

    @cached_property
    def y(self) -> Tensor:
        return self.source_y.index_select(0, torch.from_numpy(self.records))

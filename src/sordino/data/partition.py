"""Who holds which record: the protocol of a partition, and the compact table that most partitions are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sordino.errors import DataError
from sordino.types import IntArray


class Partition(Protocol):
    """Maps clients to records without an object a client."""

    @property
    def count(self) -> int:
        """Number of clients."""

    def sizes(self, clients: IntArray) -> IntArray:
        """Returns how many records each of the clients holds: at least one."""

    def indices(self, clients: IntArray) -> tuple[IntArray, IntArray]:
        """Returns (offsets[n + 1], records[total]): client k of the list holds records[offsets[k]:offsets[k + 1]]."""


def offsets_of(sizes: IntArray) -> IntArray:
    """Returns the running offsets [0, s_0, s_0 + s_1, …] of consecutive stretches of the given sizes."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def positions_within(sizes: IntArray) -> IntArray:
    """Returns 0 … size − 1 for each stretch, one after the other."""
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(offsets_of(sizes)[:-1], sizes)


@dataclass(frozen=True, eq=False)
class PartitionTable:
    """A partition as two arrays: client k holds order[offsets[k]:offsets[k + 1]].

    **Formal guarantees**: every client holds at least one record; what is stored is 8 bytes a client and 8 a record.

    **Edge cases**: a client without data is refused here, so no partition can hand one on unnoticed.
    """

    offsets: IntArray
    order: IntArray
    names: tuple[str, ...] = ()
    """What the clients are called (writers, hospitals), where they have names."""

    def __post_init__(self) -> None:
        empty = np.flatnonzero(np.diff(self.offsets) <= 0)
        if len(self.offsets) < 2:
            raise DataError("partition: no client is left to train: set fewer aside (data.test), or give more records.")
        if len(empty):
            raise DataError(
                f"partition: client {empty[0]} has no data ({len(empty)} of {self.count} clients have none); "
                "use fewer clients (partition.clients) or a milder skew."
            )

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    def sizes(self, clients: IntArray) -> IntArray:
        return self.offsets[clients + 1] - self.offsets[clients]

    def indices(self, clients: IntArray) -> tuple[IntArray, IntArray]:
        sizes = self.sizes(clients)
        offsets = offsets_of(sizes)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[clients] - offsets[:-1], sizes)
        return offsets, self.order[places]

    @classmethod
    def of_sizes(cls, order: IntArray, sizes: IntArray) -> PartitionTable:
        """Cuts the records, in the order given, into consecutive stretches of the given sizes."""
        return cls(offsets_of(sizes), order)

    @classmethod
    def of_owners(cls, owners: IntArray, names: Sequence[str] = ()) -> PartitionTable:
        """Gives each record to its owner 0 … n − 1; records keep their order within an owner."""
        sizes = np.bincount(owners).astype(np.int64)
        return cls(offsets_of(sizes), np.argsort(owners, kind="stable").astype(np.int64), tuple(names))

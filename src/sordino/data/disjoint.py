"""Partitions in which every record has exactly one holder, and clients are alike or given by nature.

All are drawn once from a stream keyed by the seed, and kept as a `PartitionTable`. Sizes add up to the number of
records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sordino.data.partition import PartitionTable
from sordino.errors import DataError
from sordino.random.streams import Streams
from sordino.types import FloatArray, IntArray


def iid(records: int, clients: int, seed: int) -> PartitionTable:
    """Deals shuffled records out evenly: sizes differ by at most one."""
    require_enough(records, clients)
    return PartitionTable.of_sizes(stream(seed, "iid").permutation(records), even_sizes(records, clients))


def by_key(owners: ArrayLike) -> PartitionTable:
    """Gives each record to its natural owner (a writer, a hospital); clients are numbered in sorted order of owners."""
    names, numbers = np.unique(np.asarray(owners), return_inverse=True)
    return PartitionTable.of_owners(numbers.astype(np.int64), [str(name) for name in names])


def quantity_skew(records: int, clients: int, alpha: float, seed: int) -> PartitionTable:
    """Gives clients very different amounts of like data: sizes are 1 + a Dirichlet(α) share of what is left."""
    require_enough(records, clients)
    rng = stream(seed, "quantity_skew")
    sizes = 1 + apportion(records - clients, rng.dirichlet(np.full(clients, alpha)))
    return PartitionTable.of_sizes(rng.permutation(records), sizes)


def even_sizes(total: int, parts: int) -> IntArray:
    """Splits a total into parts that differ by at most one, the larger ones first."""
    sizes = np.full(parts, total // parts, np.int64)
    sizes[: total % parts] += 1
    return sizes


def apportion(total: int, shares: FloatArray) -> IntArray:
    """Splits a total into integer parts in proportion to the shares."""
    running = np.cumsum(shares)
    cuts: IntArray = np.rint(running / running[-1] * total).astype(np.int64)
    return np.diff(cuts, prepend=np.int64(0))


def stream(seed: int, kind: str) -> np.random.Generator:
    """Returns the generator that one kind of partition draws from."""
    return Streams(seed).generator(f"partition {kind}")


def require_enough(records: int, clients: int) -> None:
    """Raises a DataError unless there is at least one client, and a record for each."""
    if clients < 1:
        raise DataError(f"partition.clients is {clients}: a federation needs at least one client.")
    if clients > records:
        raise DataError(
            f"partition.clients is {clients} but there are only {records} training records to share out: use at most "
            f"{records} clients, or set partition.size to draw each client's records from all of them."
        )

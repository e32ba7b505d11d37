"""Partitions in which every record has exactly one holder."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sordino.data.partition import Table
from sordino.errors import DataError
from sordino.randomness import Streams
from sordino.types import IntArray


def iid(records: int, clients: int, seed: int) -> Table:
    """Deals shuffled records out evenly: sizes differ by at most one, and each record has one holder."""
    _require_enough(records, clients)
    return Table.of_sizes(_rng(seed, "iid").permutation(records).astype(np.int64), even_sizes(records, clients))


def by_key(owners: ArrayLike) -> Table:
    """Gives each record to its natural owner (a writer, a hospital); clients are numbered in sorted order of owners."""
    names, numbers = np.unique(np.asarray(owners), return_inverse=True)
    return Table.of_owners(numbers.astype(np.int64), [str(name) for name in names])


def even_sizes(total: int, parts: int) -> IntArray:
    """Splits a total into parts that differ by at most one, the larger ones first."""
    sizes = np.full(parts, total // parts, np.int64)
    sizes[: total % parts] += 1
    return sizes


def _rng(seed: int, kind: str) -> np.random.Generator:
    return Streams(seed).generator(f"partition {kind}")


def _require_enough(records: int, clients: int) -> None:
    if clients < 1:
        raise DataError(f"partition.clients is {clients}: a federation needs at least one client.")
    if clients > records:
        raise DataError(
            f"partition.clients is {clients} but there are only {records} training records to share out: use at most "
            f"{records} clients, or set partition.size to draw each client's records from all of them."
        )

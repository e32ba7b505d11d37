"""Who holds what, as digests: what a ledger remembers, so that a client's place cannot become somebody else's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.data.federation import Federation
from sordino.data.record_hashes import record_hashes
from sordino.types import IntArray

_AT_ONCE = 2_000_000
"""Holdings (records, counted once for each holder) that are summed at once."""


@lru_cache(maxsize=1)  # a run opens its ledger more than once
def holdings(federation: Federation) -> Sequence[bytes]:
    """Returns bytes for each client that tell its holdings apart, whatever the order of its records.

    **Formal guarantees**: a client's bytes are the sum modulo 2^64 of two independent hashes of its records, so they
    depend on which records it holds, how often, and on nothing else. They are not keyed: the ledger keys them before
    anything is written down.
    """
    hashes, clients = federation.hashes, np.arange(federation.population)
    hashes = record_hashes(federation.train_x, federation.train_y) if hashes is None else hashes
    ends, parts, start = np.cumsum(federation.sizes()), list[NDArray[np.uint64]](), 0
    while start < len(clients):
        stop = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + _AT_ONCE, "right")))
        parts.append(_sums(federation, hashes, clients[start:stop]))
        start = stop
    return [row.tobytes() for row in np.concatenate(parts)]


def _sums(federation: Federation, hashes: NDArray[np.uint64], clients: IntArray) -> NDArray[np.uint64]:
    offsets, records = federation.partition.indices(clients)
    # no client is empty, so every segment of the reduction has an element
    return np.asarray(np.add.reduceat(hashes[records], offsets[:-1], axis=0), dtype=np.uint64)

"""A set of clients in as few bytes as it needs: sorted ids when sparse, one bit a client when dense."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.errors import LedgerError
from sordino.types import BoolArray, IntArray

_SPARSE, _DENSE = b"s", b"d"


@dataclass(frozen=True)
class Cohort:
    """Which of the `population` clients that there were at the time belong; exactly one of the two arrays is set."""

    population: int
    sparse: NDArray[np.uint32] | None
    dense: NDArray[np.uint8] | None

    @classmethod
    def of(cls, clients: IntArray, population: int) -> Cohort:
        """Returns the cohort of these client ids.

        Raises:
            LedgerError: an id is repeated, or lies outside 0 … population − 1.
        """
        ids = np.asarray(clients, dtype=np.int64)
        if not (ids[1:] > ids[:-1]).all():
            ids = np.unique(ids)
        if len(ids) != len(clients):
            raise LedgerError("participants repeat a client id: name each client once")
        if len(ids) and (ids[0] < 0 or ids[-1] >= population):
            raise LedgerError(
                f"client {ids[0] if ids[0] < 0 else ids[-1]} is outside the population 0 … {population - 1}"
            )
        if len(ids) * 32 <= population or population < 64:
            return cls(population, ids.astype(np.uint32), None)
        mask = np.zeros(population, np.bool_)
        mask[ids] = True
        return cls(population, None, np.packbits(mask))

    def ids(self) -> IntArray:
        """Returns the members in rising order."""
        if self.sparse is not None:
            return self.sparse.astype(np.int64)
        return np.flatnonzero(self.mask()).astype(np.int64)

    def mask(self) -> BoolArray:
        """Returns one flag a client."""
        if self.dense is not None:
            return np.unpackbits(self.dense, count=self.population).astype(np.bool_)
        mask = np.zeros(self.population, np.bool_)
        mask[self.ids()] = True
        return mask

    def contains(self, clients: IntArray) -> BoolArray:
        """Returns which of the clients are members; those that came later than the cohort are not."""
        if self.dense is not None:
            inside = clients < self.population
            known = clients if inside.all() else np.where(inside, clients, 0)
            bits = self.dense[known >> 3] >> (7 - (known & 7)).astype(np.uint8)
            return np.asarray(bits & 1, dtype=np.bool_) & inside
        members = self.sparse if self.sparse is not None else np.empty(0, np.uint32)
        place = np.searchsorted(members, clients)
        inside = place < len(members)
        found = np.zeros(len(clients), np.bool_)
        found[inside] = members[place[inside]] == clients[inside]
        return found

    def rest(self, population: int) -> IntArray:
        """Returns the members, and all of `population` clients that came later: whom "all but these" leaves out."""
        if population == self.population:
            return self.ids()
        return np.concatenate([self.ids(), np.arange(self.population, population, dtype=np.int64)])

    def __len__(self) -> int:
        if self.sparse is not None:
            return len(self.sparse)
        return int(np.bitwise_count(self.dense).sum()) if self.dense is not None else 0

    def pack(self) -> bytes:
        """Returns the bytes to store."""
        if self.sparse is not None:
            gaps = self.sparse.astype("<u4")
            gaps[1:] -= self.sparse[:-1]
            return _SPARSE + zlib.compress(gaps.tobytes(), 1)
        assert self.dense is not None
        return _DENSE + zlib.compress(self.dense.tobytes(), 1)

    @classmethod
    def unpack(cls, packed: bytes, population: int) -> Cohort:
        """Inverts `pack`."""
        raw = zlib.decompress(packed[1:])
        if packed[:1] == _SPARSE:
            return cls(population, np.cumsum(np.frombuffer(raw, "<u4"), dtype=np.uint32), None)
        return cls(population, None, np.frombuffer(raw, np.uint8))

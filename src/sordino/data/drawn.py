"""Partitions that are never stored: each client's records are computed from its number when asked for.

Every client draws its own records from *all* records, so a record may have several holders: a federation can be much
larger than its data set (a million clients on 60,000 images; the 5,000 × 1,200 of Baek et al.). One client's records
are distinct until it has exhausted a class, and only then repeat.

A draw has two steps: how many records of each pool (usually a class) a client holds, then which ones: the first so many
of the client's own keyed permutation of that pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaincinv

from sordino.data.keyed import hashed, key, permuted, uniforms
from sordino.data.partition import PartitionTable, offsets_of, positions_within
from sordino.errors import DataError
from sordino.types import FloatArray, IntArray


class Mix(Protocol):
    """How many records of each pool a client holds, given how many it holds in all."""

    def __call__(self, seed: int, clients: IntArray, sizes: IntArray, pools: IntArray) -> IntArray:
        """Returns counts `[clients, pools]` whose rows add up to `sizes`; `pools` has the pools' sizes."""


@dataclass(frozen=True)
class Drawn:
    """`count` clients that hold `size` records each, drawn by their own keyed hash.

    With `skew` α, sizes are instead Gamma(α) with mean `size`, and at least one.

    **Formal guarantees**: every client holds at least one record; nothing is stored per client; the answer for a client
    depends on (seed, client) alone.
    """

    count: int
    size: int
    seed: int
    pools: PartitionTable
    mix: Mix
    skew: float | None = None

    def __post_init__(self) -> None:
        for field, value in (("partition.clients", self.count), ("partition.size", self.size)):
            if value < 1:
                raise DataError(f"{field} is {value}: it must be at least 1.")

    def sizes(self, clients: IntArray) -> IntArray:
        if self.skew is None:
            return np.full(len(clients), self.size, np.int64)
        gammas = gammaincinv(self.skew, uniforms(key(self.seed, "sizes"), clients)) / self.skew
        rounded: IntArray = np.maximum(1, np.rint(gammas * self.size)).astype(np.int64)
        return rounded

    def indices(self, clients: IntArray) -> tuple[IntArray, IntArray]:
        sizes = self.sizes(clients)
        limits = np.diff(self.pools.offsets)
        counts = self.mix(self.seed, clients, sizes, limits)
        cells = counts.ravel()  # one cell for each (client, pool)
        pool = np.repeat(np.tile(np.arange(len(limits)), len(clients)), cells)
        owner = np.repeat((clients[:, None] * len(limits) + np.arange(len(limits))).ravel(), cells)
        place = permuted(key(self.seed, "records"), owner, positions_within(cells) % limits[pool], limits[pool])
        return offsets_of(sizes), self.pools.order[self.pools.offsets[pool] + place]


def one_pool(records: int) -> PartitionTable:
    """All records in one pool: what IID and quantity-skewed clients draw from."""
    return PartitionTable.of_sizes(np.arange(records), np.array([records]))


def alike(seed: int, clients: IntArray, sizes: IntArray, pools: IntArray) -> IntArray:
    """IID: everything from the one pool."""
    return sizes[:, None]


@dataclass(frozen=True)
class DirichletMix:
    """Each client's class proportions are Dirichlet, with mean the overall proportions.

    The concentration is α·C·p_c for class c of C with overall share p_c: α for every class when they are balanced, and
    IID as α grows.
    """

    alpha: float

    def __call__(self, seed: int, clients: IntArray, sizes: IntArray, pools: IntArray) -> IntArray:
        shape = self.alpha * len(pools) * pools / pools.sum()
        points = clients[:, None], np.arange(len(pools))[None, :]
        # Gamma(a) = Gamma(a + 1)·U^(1/a), in logarithms: a small α would underflow to a row of zeros.
        logs = np.log(gammaincinv(shape + 1, uniforms(key(seed, "gamma"), *points)))
        logs += np.log(uniforms(key(seed, "boost"), *points)) / shape
        weights = np.exp(logs - logs.max(1, keepdims=True))
        return _multinomial(key(seed, "dirichlet"), clients, sizes, weights)


@dataclass(frozen=True)
class LabelMix:
    """A share of each client's records has its own main label; the others have labels in the overall proportions."""

    share: float
    share_min: float | None = None

    def __call__(self, seed: int, clients: IntArray, sizes: IntArray, pools: IntArray) -> IntArray:
        low = self.share if self.share_min is None else self.share_min
        shares = low + (self.share - low) * uniforms(key(seed, "share"), clients)
        main = (hashed(key(seed, "label"), clients) % np.uint64(len(pools))).astype(np.int64)
        fixed = np.rint(shares * sizes).astype(np.int64)
        overall = np.broadcast_to(pools.astype(np.float64), (len(clients), len(pools)))
        counts = _multinomial(key(seed, "others"), clients, sizes - fixed, overall)
        counts[np.arange(len(clients)), main] += fixed
        return counts


@dataclass(frozen=True)
class FewClasses:
    """Each client holds records of `each` classes of its own, equally many of each to within one."""

    each: int

    def __call__(self, seed: int, clients: IntArray, sizes: IntArray, pools: IntArray) -> IntArray:
        slots = np.tile(np.arange(self.each), len(clients))
        owners = np.repeat(clients, self.each)
        chosen = permuted(key(seed, "classes"), owners, slots, np.full(len(slots), len(pools)))
        counts = np.zeros((len(clients), len(pools)), np.int64)
        amounts = (sizes[:, None] + np.arange(self.each)[None, ::-1]) // self.each
        counts[np.repeat(np.arange(len(clients)), self.each), chosen] = amounts.ravel()
        return counts


def _multinomial(secret: np.uint64, clients: IntArray, sizes: IntArray, weights: FloatArray) -> IntArray:
    """Draws `sizes` labels for each client in proportion to its row of weights, and counts them."""
    rows = np.repeat(np.arange(len(clients)), sizes)
    limits = np.cumsum(weights, 1)
    points = uniforms(secret, clients[rows], positions_within(sizes)) * limits[rows, -1]
    labels = (points[:, None] >= limits[rows, :-1]).sum(1)
    cells = np.bincount(rows * weights.shape[1] + labels, minlength=weights.size)
    return cells.reshape(weights.shape).astype(np.int64)

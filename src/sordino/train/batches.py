"""Which records each client uses in each local step, and how unequal clients are laid out without wasting work.

A step's batches are cut into `Rectangle`s: clients with batches of similar length side by side, the rest padded and
masked. Draws are keyed by (seed, round, client, epoch or step), and how long a client's row is follows from its own
batch alone: who else is in the cohort changes neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sordino.random.streams import Randomness
from sordino.train.shard import Shard
from sordino.types import IntArray

CACHED = 1 << 23
"""Numbers of records that are worked on at once: more would leave the caches, fewer make fixed costs count."""
_FEWEST = 4
"""Shortest row: of fewer records libraries are known to add up a client's products by its place among others."""
_NARROWEST = 64
"""Fewest columns of a part, so that matrix products stay efficient."""


@dataclass(frozen=True)
class Rectangle:
    """Batches of similar length, one row a client.

    Attributes:
        rows: which clients of the shard.
        index: which records, `[clients, length]`; padding repeats a record of the same client.
        lengths: how many leading records of each row count.
    """

    rows: IntArray
    index: IntArray
    lengths: IntArray

    def take(self, records: Tensor) -> Tensor:
        """Returns the batches `[clients, length, …]`: a view where they lie side by side, else a copy."""
        index = self.index.ravel()
        taken = self._side_by_side(records, index)
        if taken is None:
            taken = records.index_select(0, torch.from_numpy(index))
        return taken.view(*self.index.shape, *records.shape[1:])

    @staticmethod
    def _side_by_side(records: Tensor, index: IntArray) -> Tensor | None:
        if index[-1] - index[0] + 1 != len(index) or not (index[1:] - index[:-1] == 1).all():
            return None
        taken = records[index[0] : index[0] + len(index)]
        # askew, the library may add up in another order, and bits would differ
        return taken if taken.data_ptr() % 64 == 0 else None

    def narrower(self, numbers: int, more_than: int) -> Iterator[Rectangle]:
        """Yields the rectangle in parts of fewer columns, where records of so many numbers would not fit a cache.

        Where the cuts are follows from the rectangle's length alone, so that no client changes how another's records
        are added up; a rectangle that is cut has parts of more columns than `more_than`.
        """
        length = self.index.shape[1]
        fitting = max(_NARROWEST, more_than + 1, CACHED // max(1, numbers))
        columns = -(-length // -(-length // fitting))  # parts of about the same length
        cuts = [first for first in range(0, length, columns) if not first or length - first > more_than]
        for first, end in zip(cuts, [*cuts[1:], length], strict=True):
            inside = int(np.count_nonzero(self.lengths > first))  # lengths descend
            if not inside:
                return  # padding alone
            lengths = np.minimum(self.lengths[:inside] - first, end - first)
            yield Rectangle(self.rows[:inside], self.index[:inside, first:end], lengths)

    def by_group(self, groups: IntArray) -> tuple[Rectangle, list[int]]:
        """Returns the rows in the order of the numbers of their groups, and how many rows each group has."""
        order = np.argsort(groups, kind="stable")
        sizes = np.unique(groups, return_counts=True)[1].tolist()
        return Rectangle(self.rows[order], self.index[order], self.lengths[order]), sizes

    def mask(self, dtype: torch.dtype) -> Tensor:
        """Returns 1 for records that count and 0 for padding, `[clients, length]`."""
        inside = np.arange(self.index.shape[1]) < self.lengths[:, None]
        return torch.from_numpy(inside).to(dtype)

    def means(self, dtype: torch.dtype) -> Tensor:
        """Returns the weights that make a client's objective the mean over its batch."""
        length = self.index.shape[1]
        if self.lengths.min() == length:
            return torch.full((1, 1), 1 / length, dtype=dtype).expand(self.index.shape)
        return self.mask(dtype) / torch.from_numpy(self.lengths)[:, None].to(dtype)


def rectangles(
    records: IntArray, rows: IntArray, starts: IntArray, lengths: IntArray, full: int | None = None
) -> Iterator[Rectangle]:
    """Cuts ragged batches `records[starts[i] : starts[i] + lengths[i]]` into rectangles with little padding.

    **Formal guarantees**: how long a client's row is follows from its own batch (`padded`) and from the public length
    of a `full` one, if there is any: a unit changes nothing in how another client's records are added up, nor by which
    of several ways its norm is bounded (`layers/linear.py`).
    **Edge cases**: rows with an empty batch appear in no rectangle.
    """
    if len(lengths) and lengths[0] and (lengths == lengths[0]).all():
        offset = np.minimum(np.arange(_columns(int(lengths[0]), full)), lengths[0] - 1)
        yield Rectangle(rows, records[starts[:, None] + offset], lengths)
        return
    longest_first = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    rows, starts, lengths = rows[longest_first], starts[longest_first], lengths[longest_first]
    while len(rows):
        length, below = _columns(int(lengths[0]), full), padded(int(lengths[0]), below=True)
        # lengths descend, so the first row that is too short for this rectangle opens the next one
        end = int(np.searchsorted(-lengths, -below, side="left"))
        offset = np.minimum(np.arange(length), lengths[:end, None] - 1)
        yield Rectangle(rows[:end], records[starts[:end, None] + offset], lengths[:end])
        rows, starts, lengths = rows[end:], starts[end:], lengths[end:]


def _columns(length: int, full: int | None) -> int:
    """Returns how long the rectangle is that begins with a batch of this length."""
    return padded(length) if full is None else max(_FEWEST, min(padded(length), full))


def padded(length: int, below: bool = False) -> int:
    """Returns the least of 4, 6, 8, 12, …, 48, 64, 72, …, 256, 272, … that holds a batch (or the one `below` it)."""
    if length <= _FEWEST:
        return 0 if below else _FEWEST
    step = 1 << max(0, (length - 1).bit_length() - (2 if length <= 64 else 4 if length <= 256 else 5))
    fits = -(-length // step) * step
    return fits - step if below else fits


@dataclass(frozen=True)
class EpochBatches:
    """Shuffled epochs, cut into batches of a fixed size; the last, shorter batch of an epoch is kept.

    **Formal guarantees**: in each epoch every record is used exactly once; every epoch is shuffled afresh.
    **Edge cases**: a client whose batch holds all its records is not shuffled, as order cannot matter; one without
    records has empty batches.
    """

    shard: Shard
    batch_size: int | None
    randomness: Randomness
    round_: int
    _records: IntArray = field(init=False)
    _batch: IntArray = field(init=False)
    """Number of records in a full batch of each client."""
    _per_epoch: IntArray = field(init=False)
    """Number of batches of each client's epoch."""

    def __post_init__(self) -> None:
        sizes = self.shard.sizes
        batch = sizes if self.batch_size is None else np.minimum(self.batch_size, sizes)
        per_epoch = np.maximum(1, -(-sizes // np.maximum(1, batch)))
        vars(self).update(_records=self.shard.records.copy(), _batch=batch, _per_epoch=per_epoch)

    def step(self, step: int, count: int) -> Iterator[Rectangle]:
        """Yields the batches of the first `count` clients at a step; steps must be asked for in order."""
        batch, per_epoch = self._batch[:count], self._per_epoch[:count]
        epoch, place = np.divmod(step, per_epoch)
        fresh = np.flatnonzero((place == 0) & (per_epoch > 1))
        if len(fresh):
            self._shuffle(fresh, epoch[fresh])
        first = place * batch
        lengths = np.minimum(batch, self.shard.sizes[:count] - first)
        places = self.shard.starts[:count] + first
        return rectangles(self._records, np.arange(count), places, lengths, self.batch_size)

    def _shuffle(self, rows: IntArray, epochs: IntArray) -> None:
        sizes, starts = self.shard.sizes[rows], self.shard.starts[rows]
        order = self.randomness.orders("batches", self.round_, self.shard.clients[rows], sizes, epochs)
        ends, shift = np.cumsum(sizes), np.repeat(starts, sizes)
        place = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        self._records[shift + place] = self.shard.records[shift + order]


@dataclass(frozen=True)
class PoissonBatches:
    """Batches into which every record enters by its own coin: what amplification by record sampling asks for.

    **Formal guarantees**: coins are independent over records, steps, clients and rounds, with the same probability.
    **Edge cases**: a batch may be empty; a rate of 1 takes all records.
    """

    shard: Shard
    sampling_rate: float
    randomness: Randomness
    round_: int

    def step(self, step: int) -> tuple[Iterator[Rectangle], IntArray]:
        """Returns the batches of all clients at a step, and how many records each client drew."""
        records, starts, lengths = self.drawn(step)
        return rectangles(records, np.arange(len(lengths)), starts, lengths), lengths

    def drawn(self, step: int) -> tuple[IntArray, IntArray, IntArray]:
        """Returns the records of all batches at a step, where each client's begin, and how many it drew."""
        sizes, starts = self.shard.sizes, self.shard.starts
        coins = self.randomness.uniforms("records", self.round_, self.shard.clients, sizes, step)
        ends = np.cumsum(sizes)
        place = np.arange(len(coins)) - np.repeat(ends - sizes - starts, sizes)
        drawn = coins < self.sampling_rate
        before = np.concatenate([[0], np.cumsum(drawn)])
        lengths = before[ends] - before[ends - sizes]
        return self.shard.records[place[drawn]], before[ends - sizes], lengths

"""Which records each client uses in each local step, and how unequal clients are laid out without wasting work.

A step's batches are cut into `Rectangle`s: clients with batches of similar length side by side, the rest padded and
masked. Draws are keyed by (seed, round, client, epoch or step), so who else is in the cohort changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sordino.randomness import Randomness
from sordino.types import BoolArray, IntArray

PADDING = 0.25
"""Largest share of a rectangle's row that may be padding."""


@dataclass(frozen=True)
class Rectangle:
    """Batches of similar length, one row a client.

    Attributes:
        rows: which clients (places in the cohort).
        index: which records, `[clients, length]`; padding repeats a record of the same client.
        lengths: how many leading records of each row count.
    """

    rows: IntArray
    index: IntArray
    lengths: IntArray

    @property
    def mask(self) -> BoolArray | None:
        """Which records count, or None where all do."""
        length = self.index.shape[1]
        return None if (self.lengths == length).all() else np.arange(length) < self.lengths[:, None]


def rectangles(records: IntArray, rows: IntArray, starts: IntArray, lengths: IntArray) -> Iterator[Rectangle]:
    """Cuts ragged batches `records[starts[i] : starts[i] + lengths[i]]` into rectangles with little padding.

    **Edge cases**: rows with an empty batch appear in no rectangle.
    """
    longest_first = np.argsort(-lengths, kind="stable")
    rows, starts, lengths = rows[longest_first], starts[longest_first], lengths[longest_first]
    rows, starts, lengths = (a[: np.count_nonzero(lengths)] for a in (rows, starts, lengths))
    while len(rows):
        length = int(lengths[0])
        # lengths descend, so the first row that is too short for this rectangle opens the next one
        end = int(np.searchsorted(-lengths, -(1 - PADDING) * length, side="right"))
        offset = np.minimum(np.arange(length), lengths[:end, None] - 1)
        yield Rectangle(rows[:end], records[starts[:end, None] + offset], lengths[:end])
        rows, starts, lengths = rows[end:], starts[end:], lengths[end:]


class EpochBatches:
    """Shuffled epochs, cut into batches of a fixed size; the last, shorter batch of an epoch is kept.

    **Formal guarantees**: in each epoch every record is used exactly once; epochs are shuffled afresh.
    **Edge cases**: a client whose batch holds all its records is not shuffled, as order cannot matter.
    """

    def __init__(
        self, offsets: IntArray, clients: IntArray, batch_size: int | None, randomness: Randomness, round_: int
    ) -> None:
        self._starts, self._sizes = offsets[:-1], np.diff(offsets)
        self._clients, self._randomness, self._round = clients, randomness, round_
        self._batch = self._sizes if batch_size is None else np.minimum(batch_size, self._sizes)
        self.per_epoch = -(-self._sizes // np.maximum(self._batch, 1))
        self._records = np.arange(offsets[-1])

    def step(self, step: int, rows: IntArray) -> Iterator[Rectangle]:
        """Yields the rectangles of the given rows' batches at a step; steps must be asked for in order."""
        epoch, place = np.divmod(step, self.per_epoch[rows])
        fresh = (place == 0) & (self.per_epoch[rows] > 1)
        if fresh.any():
            self._shuffle(rows[fresh], epoch[fresh])
        first = place * self._batch[rows]
        lengths = np.minimum(self._batch[rows], self._sizes[rows] - first)
        return rectangles(self._records, rows, self._starts[rows] + first, lengths)

    def _shuffle(self, rows: IntArray, epochs: IntArray) -> None:
        sizes, starts = self._sizes[rows], self._starts[rows]
        order = self._randomness.orders("batches", self._round, self._clients[rows], sizes, epochs)
        ends = np.cumsum(sizes)
        shift = np.repeat(starts, sizes)
        place = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        self._records[shift + place] = shift + order


class PoissonBatches:
    """Batches into which every record enters by its own coin: what amplification by record sampling asks for.

    **Formal guarantees**: coins are independent over records, steps, clients and rounds, with the same probability.
    **Edge cases**: a batch may be empty; a rate of 1 takes all records.
    """

    def __init__(
        self, offsets: IntArray, clients: IntArray, sampling_rate: float, randomness: Randomness, round_: int
    ) -> None:
        self._offsets, self._clients, self._rate = offsets, clients, sampling_rate
        self._randomness, self._round = randomness, round_

    def step(self, step: int) -> tuple[Iterator[Rectangle], IntArray]:
        """Returns the rectangles of all clients' batches at a step, and how many records each client drew."""
        sizes = np.diff(self._offsets)
        coins = self._randomness.uniforms("records", self._round, self._clients, sizes, step)
        drawn = coins < self._rate
        before = np.concatenate([[0], np.cumsum(drawn)])
        starts, lengths = before[self._offsets[:-1]], np.diff(before[self._offsets])
        return rectangles(np.flatnonzero(drawn), np.arange(len(sizes)), starts, lengths), lengths

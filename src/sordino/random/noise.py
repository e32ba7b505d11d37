"""Adds exact integer noise to rows of integers, each row from its own key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sordino.random.float_draws import GROUP, More
from sordino.random.keystream import Keys, Keystreams, SharedKeystream, streams_of
from sordino.random.rounded import Integers, rounded_gaussian, rounded_laplace
from sordino.types import Words

Adds = Callable[[float, Words, More, Integers], Integers]


def add_gaussian(rows: Integers, stddev: float, keys: Keys) -> Integers:
    """Adds round(stddev · N) to every entry, in place; row k's noise follows from keys[k] alone.

    **Formal guarantees**: those of `rounded_gaussian`; company, order and chunking of the rows change no draw.
    **Edge cases**: keys are 32 bytes, drawn by the operating system or hashed from the name of a stream; a key must
    never serve two releases.
    """
    return _add(rounded_gaussian, rows, stddev, keys)


def add_laplace(rows: Integers, scale: float, keys: Keys) -> Integers:
    """Adds round(scale · E), E Laplace of scale 1, to every entry, in place: otherwise as `add_gaussian`."""
    return _add(rounded_laplace, rows, scale, keys)


def _add(add: Adds, rows: Integers, scale: float, keys: Keys) -> Integers:
    if len(keys) != len(rows):
        raise ValueError(f"{len(keys)} keys for {len(rows)} rows: each row needs a key of its own")
    add(scale, np.empty((0, 0), np.uint64), _none, rows[:0, :0])  # a scale that is refused changes no row
    if scale == 0:
        return rows
    streams = streams_of(keys)
    even = rows.shape[1] + (rows.shape[1] % 2 if add is rounded_gaussian else 0)
    high = max(1, GROUP // max(1, even))
    for first in range(0, len(rows), high):
        some = np.arange(first, min(first + high, len(rows)))
        for column in range(0, even, GROUP):
            words = np.empty((len(some), min(GROUP, even - column)), np.uint64)
            streams.fill(words, some, column)
            add(
                scale,
                words,
                _further(streams, first, column),
                rows[first : first + high, column : column + words.shape[1]],
            )
    return rows


def _further(streams: Keystreams | SharedKeystream, first: int, column: int) -> More:
    return lambda row, place, step: streams.further(first + row, column + place, step)


def _none(row: int, place: int, step: int) -> int:
    raise AssertionError("no draw, no bits")

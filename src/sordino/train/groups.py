"""Which clients' vectors are added up in single precision together: groups that a client who leaves hardly changes.

Were groups cut by place, one client less would push every later one over the next cut, and all of the sum would be
rounded otherwise. So every client draws a number, and a group is the clients, with batches of about the same length,
whose numbers lie in the widest interval [k·2ʲ, (k + 1)·2ʲ) that holds at most `MOST_TOGETHER` of them.
"""

from __future__ import annotations

import numpy as np

from sordino.random.streams import Randomness
from sordino.train.batches import padded
from sordino.train.gradients import SINGLE
from sordino.types import IntArray

MOST_TOGETHER = SINGLE - 1
"""Most clients of a group."""

FEWEST_GROUPED = 2 * SINGLE
"""Fewest clients that are dealt into groups: sums of fewer are in double precision, and may be cut anywhere."""


def grouped(
    clients: IntArray, lengths: IntArray, randomness: Randomness, round_: int
) -> tuple[IntArray, IntArray] | None:
    """Returns an order of clients in which each group is a stretch, and the numbers of their groups in that order.

    Args:
        clients: whose vectors.
        lengths: how many records each has in its batch.
        randomness: where the clients' draws come from.
        round_: the round.

    **Formal guarantees**: draws are independent and alike, so two neighbours may be compared draw by draw, whoever is
    counted how after somebody left: mixtures of pairs are no easier to tell apart than the worst pair. Under the same
    draws, where one client comes or goes, either its own group has one more or less, or two groups of `SINGLE` clients
    together become one of all but one of them; all other groups stay as they are. So the groups that change hold at
    most `SINGLE` vectors, before and after.
    **Edge cases**: None for fewer than `FEWEST_GROUPED` clients. At that many, all groups give way to double precision
    at once; but then they are rounded in one of two neighbours only.
    """
    if len(clients) < FEWEST_GROUPED:
        return None
    draws = randomness.uniforms("groups", round_, clients, np.ones(len(clients), np.int64))
    numbers = (draws * 2.0**53).astype(np.int64)
    if (lengths == lengths[0]).all():
        order = np.argsort(numbers, kind="stable")
        return _halved(order, dealt(numbers[order], MOST_TOGETHER), lengths)
    kinds, which = np.unique(lengths, return_inverse=True)
    rows = np.array([padded(int(length)) for length in kinds])[which]
    order = np.lexsort((numbers, -rows))
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    begins = [
        first + dealt(numbers[order[first:last]], MOST_TOGETHER)
        for first, last in zip(starts, [*starts[1:], len(order)], strict=True)
    ]
    return _halved(order, np.concatenate(begins), lengths)


def _halved(order: IntArray, begins: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Returns clients and groups such that the first half of the groups is about as much work as the second."""
    sizes = np.diff(begins, append=len(order))
    heaviest = np.argsort(-np.add.reduceat(lengths[order], begins), kind="stable")
    snake = np.arange(len(heaviest)) % 4 % 3 == 0  # the first, fourth, fifth, eighth, …
    turns = np.concatenate([heaviest[snake], heaviest[~snake]])
    sizes, shift = sizes[turns], np.cumsum(sizes[turns]) - sizes[turns]
    places = np.arange(len(order)) + np.repeat(begins[turns] - shift, sizes)
    return order[places], np.repeat(np.arange(len(turns)), sizes)


def dealt(numbers: IntArray, most: int) -> IntArray:
    """Returns the places among ascending numbers at which groups begin.

    An interval holds more than `most` numbers just if it holds `most` + 1 that follow each other. Such a window lies
    within an interval of length 2ᵇ, where b is the bit length of (first xor last), and within no shorter one. So a
    number's group is one halving shorter than the shortest interval of a window that it belongs to.

    **Edge cases**: more than `most` equal numbers are one group all the same; of 53 random bits they never are.
    """
    if len(numbers) <= most:
        return np.zeros(1, np.int64)
    level, span = np.full(len(numbers) + most, 62, np.int64), 1
    level[most:-most] = _bit_length(numbers[:-most] ^ numbers[most:]) - 1
    while span <= most:  # the least over most + 1 neighbours
        step = min(span, most + 1 - span)
        level, span = np.minimum(level[:-step], level[step:]), span + step
    level = np.maximum(level, 0)
    same = (level[1:] == level[:-1]) & (numbers[1:] >> level[1:] == numbers[:-1] >> level[1:])
    return np.flatnonzero(np.concatenate([[True], ~same]))


def _bit_length(numbers: IntArray) -> IntArray:
    high, low = (np.frexp(part.astype(np.float64))[1] for part in (numbers >> 32, numbers & 0xFFFFFFFF))
    return np.where(high > 0, high + 32, low).astype(np.int64)

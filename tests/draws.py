"""Uniform numbers with known bits, and what they make by an independent high-precision library."""

from __future__ import annotations

import hashlib

import mpmath
import numpy as np

from sordino.random.float_draws import GROUP


def more(row: int, place: int, step: int) -> int:
    """The further bits of these tests: a hash of where they stand."""
    return int.from_bytes(hashlib.blake2b(f"{row}/{place}/{step}".encode(), digest_size=8).digest(), "little")


def words(rows: int, width: int, seed: int = 1) -> np.ndarray:
    return np.random.Philox(seed).random_raw(rows * width).reshape(rows, width)


def uniform(word: int, row: int, place: int, steps: int = 3) -> mpmath.mpf:
    """The uniform number of a word and its further bits, to 64·(steps + 1) bits."""
    value = word
    for step in range(steps):
        value = value << 64 | more(row, place, step)
    return mpmath.mpf(value) / mpmath.mpf(2) ** (64 * (steps + 1))


def places(column: int, width: int) -> tuple[int, int]:
    """Where the length and the angle of a Gaussian draw stand in a row of `width` words."""
    group = range(column // GROUP * GROUP, min((column // GROUP + 1) * GROUP, width))
    half = len(group) // 2
    first = column if column - group.start < half else column - half
    return first, first + half


def gaussian(table: np.ndarray, row: int, column: int) -> mpmath.mpf:
    """The standard normal draw that these words make."""
    first, second = places(column, table.shape[1])
    length = mpmath.sqrt(-2 * mpmath.log(uniform(int(table[row, first]), row, first)))
    angle = 2 * mpmath.pi * uniform(int(table[row, second]), row, second)  # signed or not: a whole turn apart
    return length * (mpmath.cos(angle) if column == first else mpmath.sin(angle))


def laplace(table: np.ndarray, row: int, column: int) -> mpmath.mpf:
    """The standard Laplace draw that this word makes."""
    word = int(table[row, column])
    sign = -1 if word >> 63 else 1
    return -sign * mpmath.log(2 * uniform(word % 2**63, row, column))

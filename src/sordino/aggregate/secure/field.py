"""GF(2^128) by the array: as many products at once as there are elements, in plain numpy.

An element is two 64-bit words, the upper one first; bit i stands for x^i, and x^128 = x^7 + x^2 + x + 1. Points of a
sharing are small numbers, so most factors have few bits: `times_small` shifts and adds, bit by bit. Other factors are
few and fixed: `times_fixed` looks their multiples up, four bits at a time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.types import IntArray, Words

_ONE = np.uint64(1)
_DIGIT = 4  # bits of a factor that are looked up at once
_UP, _REST, _LAST = np.uint64(_DIGIT), np.uint64(64 - _DIGIT), np.uint64((1 << _DIGIT) - 1)


def from_bytes(blocks: NDArray[np.uint8]) -> Words:
    """Returns the elements of blocks of 16 bytes `[…, 16]`, most significant bit first."""
    words = np.ascontiguousarray(blocks).view(">u8").astype(np.uint64)
    return np.stack((words[..., 0], words[..., 1]))


def to_bytes(elements: Words) -> NDArray[np.uint8]:
    """Returns the blocks of elements `[2, …]`: what `from_bytes` reads."""
    return np.stack((elements[0], elements[1]), -1).astype(">u8").view(np.uint8)


def times_small(elements: Words, factors: Words, bits: int) -> Words:
    """Returns products with numbers of at most so many bits (below 32), element by element."""
    high, low = elements
    top, product = np.zeros_like(high), np.zeros_like(elements)
    for bit in range(bits):
        chosen = -(factors >> np.uint64(bit) & _ONE)  # all ones, or all zeros
        if bit:
            up, down = np.uint64(bit), np.uint64(64 - bit)
            top ^= high >> down & chosen
            product[0] ^= (high << up | low >> down) & chosen
            product[1] ^= (low << up) & chosen
        else:
            product ^= elements & chosen
    product[1] ^= _folded(top)
    return product


def times_fixed(elements: Words, multiples: Words, which: IntArray) -> Words:
    """Returns products with fixed elements, given by their `multiples` and by which of them is meant each time."""
    product = np.zeros_like(elements)
    for word in elements:
        for shift in range(60, -_DIGIT, -_DIGIT):
            top = product[0] >> _REST
            product[0] = product[0] << _UP | product[1] >> _REST
            product[1] = product[1] << _UP ^ _folded(top)
            digit = (word >> np.uint64(shift) & _LAST).astype(np.int64)
            product ^= multiples[:, which, digit]
    return product


def multiples_of(elements: Words) -> Words:
    """Returns the products `[2, n, 16]` of n elements with all polynomials of degree below 4."""
    digits = np.arange(1 << _DIGIT, dtype=np.uint64)
    return times_small(np.repeat(elements[..., None], len(digits), -1), digits, _DIGIT)


@lru_cache(maxsize=8)
def inverse_points(bits: int) -> Words:
    """Returns 1/m for the points m = 0 … 2^bits − 1 (0 for 0), at the price of one inversion: 1/a = b·(1/ab)."""
    points = range(1, 1 << bits)
    running = [1]
    for point in points:
        running.append(_times(running[-1], point))
    inverse, inverses = _inverse(running.pop()), list[int]()
    for point in reversed(points):
        inverses.append(_times(inverse, running.pop()))
        inverse = _times(inverse, point)
    blocks = b"".join(element.to_bytes(16, "big") for element in (0, *reversed(inverses)))
    return from_bytes(np.frombuffer(blocks, np.uint8).reshape(-1, 16))


def _folded(top: Words) -> Words:
    """What is left of the bits from x^128 on (fewer than 57 of them)."""
    folded: Words = top ^ top << _ONE ^ top << np.uint64(2) ^ top << np.uint64(7)
    return folded


def _times(a: int, b: int) -> int:
    """The product of two elements, as numbers: bit by bit, for the few that are needed once."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a, b = a << 1 ^ (a >> 127) * (1 << 128 | 0x87), b >> 1
    return product


def _inverse(element: int) -> int:
    """Returns 1/a = a^(2^128 − 2), the product of a^2, a^4, …, a^(2^127)."""
    power, product = element, 1
    for _ in range(127):
        power = _times(power, power)
        product = _times(product, power)
    return product

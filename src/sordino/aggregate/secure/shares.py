"""Shamir's secret sharing in GF(2^128): shares of 32-byte secrets, made and combined in bulk.

Field, polynomial and layout are those of pycryptodome's `Crypto.Protocol.SecretSharing.Shamir`, block of 16 bytes by
block, and the tests split with one and combine with the other. The library works through one share at a time, bit by
bit: a cohort of a hundred would take it longer than all the rest of the protocol (`benchmarks/secagg.py` measures it).

An element is held *spread*: its 128 bits in the 128 bytes of one large integer. Multiplying two of those adds up, in
each byte, how many products of bits fall there (at most 128, so nothing carries), and the lowest bit of every byte is
the product of polynomials over GF(2). Several elements lie side by side in *lanes* of 256 bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

BLOCK = 16
_LANE = 256 * 8
_HALF = 128 * 8
_REDUCE = 1 | 1 << 8 | 1 << 16 | 1 << 56  # x^128 = x^7 + x^2 + x + 1


@lru_cache(maxsize=8)
def _lanes(count: int) -> tuple[int, int, int]:
    """Returns masks for so many lanes: the lowest bit of every byte; the lower half of every lane; the upper half."""
    every = sum(1 << lane * _LANE for lane in range(count))
    bits = every * (int.from_bytes(b"\1" * 256, "little"))
    low = every * ((1 << _HALF) - 1)
    return bits, bits & low, bits & (low << _HALF)


def _times(a: int, b: int, masks: tuple[int, int, int]) -> int:
    """Returns the products of the elements in the lanes of a with the one element b."""
    return _reduced(a * b & masks[0], masks)


def _reduced(product: int, masks: tuple[int, int, int]) -> int:
    """Returns what is left of polynomials of degree below 256, a lane each, modulo the field's polynomial."""
    bits, low, high = masks
    while over := product & high:
        product = product & low ^ (over >> _HALF) * _REDUCE & bits
    return product


def _spread(blocks: bytes, rows: int = 1) -> list[int]:
    """Returns the elements of blocks of 16 bytes (most significant bit first), one a lane, in so many integers."""
    lanes = np.zeros((len(blocks) // BLOCK, 256), np.uint8)
    lanes[:, 127::-1] = np.unpackbits(np.frombuffer(blocks, np.uint8)).reshape(-1, 128)
    flat, size = lanes.tobytes(), lanes.nbytes // rows
    return [int.from_bytes(flat[row * size : (row + 1) * size], "little") for row in range(rows)]


def _gathered(lanes: int, size: int) -> bytes:
    """Returns the blocks of spread elements."""
    bits = np.frombuffer(lanes.to_bytes(size * BLOCK, "little"), np.uint8).reshape(-1, 256)[:, 127::-1]
    return np.packbits(bits).tobytes()


@lru_cache(maxsize=1 << 14)
def _point(x: int) -> int:
    return _spread(x.to_bytes(BLOCK, "big"))[0]


_ONE = _lanes(1)


def split(secrets: bytes, threshold: int, holders: int, entropy: Callable[[int], bytes] = os.urandom) -> list[bytes]:
    """Splits secrets (a multiple of 16 bytes) into shares for the points 1 … holders, any `threshold` of which suffice.

    **Formal guarantees**: fewer shares than the threshold are independent of the secrets, whoever computes.
    **Edge cases**: with threshold 1 every share is the secret.
    """
    masks = _lanes(len(secrets) // BLOCK)
    coefficients = _spread(entropy(len(secrets) * (threshold - 1)) + secrets, threshold)
    return [_gathered(_value(coefficients, x, masks), len(secrets)) for x in range(1, holders + 1)]


def _value(coefficients: list[int], x: int, masks: tuple[int, int, int]) -> int:
    """Returns a polynomial's value at a point, by Horner's rule.

    A point has few bits, so a step raises the degree by few and no byte counts past 255 in two steps (of at most 15
    bits: 15·16 + 1): counts are made bits again every other step, and only then, if need be, the element is reduced.
    """
    point, bits = _point(x), x.bit_length()
    often, room = (2 if bits <= 15 else 1), 126 // bits
    value, steps = 0, 0
    for number, coefficient in enumerate(coefficients):
        value = value * point + coefficient
        if number % often == often - 1:
            value &= masks[0]
            steps += often
            if steps > room - 2 * often:
                value, steps = _reduced(value, masks), 0
    return _reduced(value & masks[0], masks)


def combine(shares: Mapping[int, bytes], holders: int) -> bytes:
    """Returns the secrets from shares by point: at least as many as the threshold, of 1 … holders.

    **Edge cases**: too few shares, or a wrong one, give some other bytes: compare the result with a commitment.
    """
    present = sorted(shares)
    size = len(shares[present[0]])
    masks, total = _lanes(size // BLOCK), 0
    weights, factor = _weights(tuple(present), holders)
    for share, weight in zip(_spread(b"".join(shares[x] for x in present), len(present)), weights, strict=True):
        total ^= share * weight & masks[0]
    return _gathered(_times(_reduced(total, masks), factor, masks), size)


@lru_cache(maxsize=64)
def _weights(present: tuple[int, ...], holders: int) -> tuple[list[int], int]:
    """Returns Lagrange's weights at zero, λ_x = Π m/(x + m) over the other points m that are present, but for a factor.

    They follow from those of all points: one that is missing multiplies every weight by (x + m)/m. So a few missing
    points cost little, whichever they are; and the 1/m are the same for all, which makes the factor.
    """
    missing = sorted(set(range(1, holders + 1)).difference(present))
    factor, all_weights, bits = _point(1), _all_weights(holders), _ONE[0]
    for m in missing:
        factor = _times(factor, _inverse(_point(m)), _ONE)
    at_once = max(1, 126 // holders.bit_length())  # so many points' product is below degree 128: no reduction
    weights = []
    for x in present:
        weight = all_weights[x - 1]
        for start in range(0, len(missing), at_once):
            product = 1
            for m in missing[start : start + at_once]:
                product = product * _point(x ^ m) & bits
            weight = _times(weight, product, _ONE)
        weights.append(weight)
    return weights, factor


@lru_cache(maxsize=64)
def _all_weights(holders: int) -> list[int]:
    """Returns the weights when every point is present."""
    points, everything, below = range(1, holders + 1), _point(1), list[int]()
    for x in points:
        everything = _times(everything, _point(x), _ONE)
        product = _point(x)  # cancels x itself from the product of all points
        for m in points:
            if m != x:
                product = _times(product, _point(x ^ m), _ONE)
        below.append(product)
    return [_times(everything, inverse, _ONE) for inverse in _inverses(below)]


def _inverses(elements: list[int]) -> list[int]:
    """Returns 1/e for every element, at the price of one inversion: 1/a = b·(1/ab)."""
    running = [_point(1)]
    for element in elements:
        running.append(_times(running[-1], element, _ONE))
    inverse, inverses = _inverse(running.pop()), []
    for element in reversed(elements):
        inverses.append(_times(inverse, running.pop(), _ONE))
        inverse = _times(inverse, element, _ONE)
    return inverses[::-1]


@lru_cache(maxsize=1 << 12)
def _inverse(element: int) -> int:
    """Returns 1/a = a^(2^128 − 2), the product of a^2, a^4, …, a^(2^127)."""
    power, product = element, _point(1)
    for _ in range(127):
        power = _times(power, power, _ONE)
        product = _times(product, power, _ONE)
    return product

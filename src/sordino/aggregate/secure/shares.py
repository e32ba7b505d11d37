"""Shamir's secret sharing in GF(2^128): shares of 32-byte secrets, made and combined in bulk.

Field, polynomial and layout are those of pycryptodome's `Crypto.Protocol.SecretSharing.Shamir`, block of 16 bytes by
block, and the tests split with one and combine with the other. The library works through one share at a time, bit by
bit: a cohort of a hundred would take it longer than all the rest of the protocol (`benchmarks/secagg.py` measures it).

Secrets are recovered by the thousand, in arrays (`field.py`). They are split one at a time: there an element is held
*spread*: its 128 bits in the 128 bytes of one large integer. Multiplying two of those adds up, in
each byte, how many products of bits fall there (at most 128, so nothing carries), and the lowest bit of every byte is
the product of polynomials over GF(2). Several elements lie side by side in *lanes* of 256 bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.aggregate.secure.cores import on_all_cores
from sordino.aggregate.secure.field import (
    from_bytes,
    inverse_points,
    multiples_of,
    times_fixed,
    times_small,
    to_bytes,
)
from sordino.types import BoolArray, Words

BLOCK = 16
_AT_ONCE = 1 << 14  # elements that stay in the cache while they are multiplied
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
    size, present = len(next(iter(shares.values()))), np.zeros((1, holders), bool)
    table = np.zeros((1, holders, size), np.uint8)
    for point, share in shares.items():
        present[0, point - 1], table[0, point - 1] = True, np.frombuffer(share, np.uint8)
    blocks = table.reshape(holders, -1, BLOCK).swapaxes(0, 1)
    return combine_all(blocks, np.repeat(present, len(blocks), 0)).tobytes()


def combine_all(shares: NDArray[np.uint8], present: BoolArray) -> NDArray[np.uint8]:
    """Returns secrets of 16 bytes `[n, 16]` from the shares `[n, holders, 16]` that are present `[n, holders]`.

    Lagrange's weights at zero are λ_x = Π m/(x + m) over the other points m that are present. Let all 2^k − 1 nonzero
    numbers of k bits be points. If all were present, x + m would run through them as m does, and every weight be 1; so
    λ_x = Π (x + m)/m over the points that are *missing*. Those beyond the last holder always are, the others are few.

    **Edge cases**: as `combine`; what stands where a share is not present does not matter.
    """
    secrets, order = np.zeros((len(present), BLOCK), np.uint8), np.argsort((~present).sum(1), kind="stable")
    step = max(1, _AT_ONCE // present.shape[1])  # as many rows as stay in the cache, and lack about as many points

    def combine_some(start: int) -> None:
        rows = order[start : start + step]
        secrets[rows] = _combined(shares[rows], present[rows])

    on_all_cores(combine_some, range(0, len(order), step))
    return secrets


def _combined(shares: NDArray[np.uint8], present: BoolArray) -> NDArray[np.uint8]:
    (rows, holders), missing = present.shape, (~present).sum(1)
    points, (weights, inverses, factor) = np.arange(1, holders + 1), _beyond(holders)
    terms = from_bytes(shares * present[..., None])
    terms = times_fixed(terms, weights, np.broadcast_to(points - 1, present.shape))
    gone = np.argsort(present, axis=1, kind="stable")[:, : int(missing.max())].T + 1
    lacks = missing > np.arange(len(gone))[:, None]  # rows that lack no more points are multiplied by one
    for point, lacking in zip(gone, lacks, strict=True):
        by = np.where(lacking[:, None], points ^ point[:, None], 1).astype(np.uint64)
        terms = times_small(terms, by, holders.bit_length())
    secrets = times_fixed(np.bitwise_xor.reduce(terms, axis=2), factor, np.zeros(rows, np.int64))
    for point in np.where(lacks, gone, 1):
        secrets = times_fixed(secrets, inverses, point)
    return to_bytes(secrets)


@lru_cache(maxsize=8)
def _beyond(holders: int) -> tuple[Words, Words, Words]:
    """Multiples of Π (x + m) over the points m beyond the last holder, for each x; of each 1/m; and of Π 1/m."""
    bits, points = holders.bit_length(), np.arange(1, holders + 1, dtype=np.uint64)
    inverses, weights = multiples_of(inverse_points(bits)), np.zeros((2, holders), np.uint64)
    weights[1], factor = 1, np.array([[0], [1]], np.uint64)
    for point in range(holders + 1, 1 << bits):
        weights = times_small(weights, points ^ np.uint64(point), bits)
        factor = times_fixed(factor, inverses, np.array([point]))
    return multiples_of(weights), inverses, multiples_of(factor)

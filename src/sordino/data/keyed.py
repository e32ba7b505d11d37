"""Keyed hashing over whole arrays: a client's share of the data is computed when asked for, never stored.

The mixer is SplitMix64's finaliser. It decides who holds which record in a simulation and nothing more: no privacy
rests on it (noise and batches come from `sordino.random.streams`).

Reference: Steele, Lea, Flood (2014), "Fast Splittable Pseudorandom Number Generators".
"""

from __future__ import annotations

import hashlib

import numpy as np

from sordino.types import FloatArray, IntArray, Words

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_FEISTEL_TWEAKS = np.arange(1, 13, dtype=np.uint64) * _GOLDEN  # small pools need twelve rounds to look random


def key(seed: int, purpose: str) -> np.uint64:
    """Returns the 64-bit key of one named purpose under a seed."""
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8, person=b"sordino.data").digest()
    return np.uint64(int.from_bytes(digest, "little"))


def mix(words: Words) -> Words:
    """Scrambles each 64-bit word by a fixed bijection."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def hashed(secret: np.uint64, *coordinates: IntArray | int) -> Words:
    """Returns one 64-bit hash for each point of the broadcast coordinates."""
    state: Words = np.asarray(secret, np.uint64).reshape(1)
    for coordinate in coordinates:
        state = mix((state + _GOLDEN) ^ mix(np.atleast_1d(np.asarray(coordinate, np.int64)).view(np.uint64) + _GOLDEN))
    return state


def uniforms(secret: np.uint64, *coordinates: IntArray | int) -> FloatArray:
    """Returns uniforms strictly inside (0, 1), one for each point of the broadcast coordinates."""
    return ((hashed(secret, *coordinates) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def shuffled(secret: np.uint64, size: int) -> IntArray:
    """Returns a permutation of range(size) that depends on the key alone (not on the version of any library)."""
    return np.argsort(hashed(secret, np.arange(size)), kind="stable").astype(np.int64)


def permuted(secret: np.uint64, owners: IntArray, positions: IntArray, sizes: IntArray) -> IntArray:
    """Returns where each owner's own permutation of range(size) sends each position, elementwise.

    Each owner has a bijection, so different positions of one owner never collide, and nothing is stored. A Feistel
    network permutes the smallest even power of two that holds `size`; values that fall outside walk on until inside.
    """
    half = np.maximum(np.ceil(np.log2(np.maximum(sizes, 2)) / 2), 1).astype(np.uint64)
    seeds = hashed(secret, owners)
    values = positions.astype(np.uint64)
    limits = sizes.astype(np.uint64)
    walking = np.arange(len(values))
    while len(walking):
        values[walking] = _feistel(seeds[walking], values[walking], half[walking])
        walking = walking[values[walking] >= limits[walking]]
    return values.astype(np.int64)


def _feistel(seeds: Words, values: Words, half: Words) -> Words:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    for tweak in _FEISTEL_TWEAKS:
        left, right = right, left ^ (mix(seeds ^ mix(right + tweak)) & mask)
    return (left << half) | right

"""Threefry-2×64 with 20 rounds, vectorised: a keyed, counter-based source of random words.

**Formal guarantees**: under one key, distinct counters are enciphered to distinct 128-bit blocks, so two clients can
never share a stream. **Reference**: Salmon, Moraes, Dror, Shaw (2011), "Parallel Random Numbers: As Easy as 1, 2, 3".
"""

from __future__ import annotations

import numpy as np

from sordino.types import Words

_PARITY = np.uint64(0x1BD11BDAA9FC1A22)
_ROTATIONS = (16, 42, 12, 31, 16, 32, 24, 21)


def words(key: Words, high: Words, low: Words) -> Words:
    """Returns one 64-bit word for each counter `(high, low)`: the first half of its block."""
    return blocks(key, high, low)[0]


def blocks(key: Words, high: Words, low: Words) -> tuple[Words, Words]:
    """Enciphers the counters `(high, low)` under a 128-bit key."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    with np.errstate(over="ignore"):
        x, y = high + schedule[0], low + schedule[1]
        for turn in range(20):
            rotation = np.uint64(_ROTATIONS[turn % 8])
            x += y
            y = (y << rotation) | (y >> (np.uint64(64) - rotation))
            y ^= x
            if turn % 4 == 3:
                injection = turn // 4 + 1
                x += schedule[injection % 3]
                y += schedule[(injection + 1) % 3] + np.uint64(injection)
    return x, y

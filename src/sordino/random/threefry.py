"""Threefry-2×64 with 20 rounds, vectorised: a keyed, counter-based source of random words.

**Formal guarantees**: under one key, distinct counters are enciphered to distinct 128-bit blocks, so two clients can
never share a stream. **Reference**: Salmon, Moraes, Dror, Shaw (2011), "Parallel Random Numbers: As Easy as 1, 2, 3".
"""

from __future__ import annotations

import numpy as np

from sordino.types import Words

_WORD = (1 << 64) - 1
_PARITY = 0x1BD11BDAA9FC1A22
_ROTATIONS = [(np.uint64(by), np.uint64(64 - by)) for by in (16, 42, 12, 31, 16, 32, 24, 21)]
"""By how many bits words are turned to the left, and what then comes in from the right."""


def words(key: Words, high: Words, low: Words) -> Words:
    """Returns one 64-bit word for each counter `(high, low)`: the first half of its block."""
    return blocks(key, high, low)[0]


def blocks(key: Words, high: Words, low: Words) -> tuple[Words, Words]:
    """Enciphers the counters `(high, low)` under a 128-bit key."""
    first, second = int(key[0]), int(key[1])
    schedule = first, second, first ^ second ^ _PARITY
    x, y = high + np.uint64(first), low + np.uint64(second)
    turned = np.empty_like(y)
    for turn in range(20):
        left, right = _ROTATIONS[turn % 8]
        x += y
        np.left_shift(y, left, out=turned)
        y >>= right
        y |= turned
        y ^= x
        if turn % 4 == 3:
            injection = turn // 4 + 1
            x += np.uint64(schedule[injection % 3])
            y += np.uint64((schedule[(injection + 1) % 3] + injection) & _WORD)
    return x, y

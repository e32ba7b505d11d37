"""What follows from what a server sees: linear algebra over inputs, masks and seeds.

A masked vector is one row: the client's input, and those of its masks that the server does not know. A sum of inputs is
determined exactly if some combination of the rows has no mask left in it. Masks are independent and uniform, so
nothing else about the inputs can be learnt from the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from functools import lru_cache
from itertools import combinations

PRIME = (1 << 31) - 1

Row = Mapping[Hashable, int]


def rank(rows: list[dict[Hashable, int]]) -> int:
    """The rank of sparse rows over a large prime field."""
    pivots: dict[Hashable, dict[Hashable, int]] = {}
    for row in rows:
        row = dict(row)
        while row:
            symbol = min(row)
            if symbol not in pivots:
                inverse = pow(row[symbol], -1, PRIME)
                pivots[symbol] = {s: c * inverse % PRIME for s, c in row.items()}
                break
            factor = row[symbol]
            for s, c in pivots[symbol].items():
                left = (row.get(s, 0) - factor * c) % PRIME
                if left:
                    row[s] = left
                else:
                    row.pop(s, None)
    return len(pivots)


def opened(rows: Mapping[int, Row]) -> tuple[frozenset[int], ...]:
    """The smallest sets of clients of whose inputs some combination is determined."""
    left = dict(rows)
    while True:  # a mask that stands in one row only takes that row out of every combination without masks
        counts = Counter(symbol for row in left.values() for symbol in row)
        alone = [client for client, row in left.items() if any(counts[symbol] == 1 for symbol in row)]
        if not alone:
            return _opened(frozenset((client, frozenset(row.items())) for client, row in left.items()))
        for client in alone:
            del left[client]


@lru_cache(maxsize=1 << 18)
def _opened(key: frozenset[tuple[int, frozenset[tuple[Hashable, int]]]]) -> tuple[frozenset[int], ...]:
    rows = {client: dict(row) for client, row in key}
    found: list[frozenset[int]] = []
    for size in range(1, len(rows) + 1):
        for chosen in combinations(sorted(rows), size):
            some = frozenset(chosen)
            if not any(smaller <= some for smaller in found) and rank([rows[c] for c in chosen]) < size:
                found.append(some)
    return tuple(found)

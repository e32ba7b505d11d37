"""Who the clients of a ledger are: names, kept as keyed digests, or positions where nobody has a name.

A run speaks of its clients as 0 … n − 1. The ledger gives each of them a number for good, at its first run, and finds
it again by its name, in whatever order and company it comes: what it spent then, it has spent.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.entry import canonical
from sordino.account.ledger.keys import DIGEST, LedgerKey
from sordino.errors import LedgerError
from sordino.types import IntArray

_PURPOSE = b"sordino.client"
POSITIONS, NAMES = "positions", "names"
_PAIR = np.dtype([("low", "<u8"), ("high", "<u8")])

Clients = int | Sequence[str]
"""How a run names its clients: by name, or only how many there are, which then go by their positions."""


class ClientRegister:
    """All clients that a ledger ever saw, by number.

    Formal guarantees: a row tells a name only to the holder of the ledger's key. A name has one number, for good.

    Edge cases: positions are names too ("0", "1", …), but a ledger holds names or positions, never both: position 3
    and "anna" may be the same client, and nobody could tell. Positions cannot be added to or left out: who is number 3
    of four clients need not be number 3 of five.
    """

    def __init__(self) -> None:
        self.population = 0
        self.kind = ""
        self._digests: list[bytes] = []

    def replay(self, row: LedgerRow) -> None:
        """Takes a `join` row into account."""
        body = json.loads(row.body)
        first, count, kind, digests = int(body["first"]), int(body["count"]), body["names"], row.cohort or b""
        if first != self.population or kind not in (POSITIONS, NAMES) or self.kind not in ("", kind):
            raise LedgerError("clients join out of turn")
        if count < (0 if self.kind else 1) or (kind == POSITIONS and first and count):
            raise LedgerError("clients join out of turn")
        if len(digests) != (DIGEST * count if kind == NAMES else 0):
            raise LedgerError("clients join without their digests")
        self.kind, self.population = kind, first + count
        self._digests.append(digests)

    @property
    def nobody(self) -> dict[str, Any]:
        """The body of a row that adds nobody, which is written where a run begins without newcomers."""
        return {"first": self.population, "count": 0, "names": self.kind}

    def find(self, clients: Clients, key: LedgerKey | None) -> tuple[IntArray | None, dict[str, Any] | None, bytes]:
        """Returns the number of each client, and the body and digests of the row that lets newcomers join.

        The numbers are None when they are simply all clients of the ledger in order.

        Raises:
            LedgerError: a name is repeated or cannot be kept, or the ledger's clients go by another kind of name.
        """
        if isinstance(clients, int):
            return None, self._positions(clients), b""
        names = [_normal(name) for name in clients]
        if not names or isinstance(clients, str):
            raise LedgerError("clients must be a list of names, one or more")
        if self.kind == POSITIONS:
            return self._placed(names), None, b""
        if key is None:
            raise LedgerError(
                "clients are known by keyed digests of their names: the ledger's key is needed to find one"
            )
        digests = key.digests(_PURPOSE, [name.encode() for name in names])
        numbers = _matched(b"".join(self._digests), digests)
        new = np.flatnonzero(numbers < 0)
        if not len(new):
            return numbers, None, b""
        numbers[new] = self.population + np.arange(len(new))
        joining = np.frombuffer(digests, np.uint8).reshape(-1, DIGEST)[new].tobytes()
        return numbers, {"first": self.population, "count": len(new), "names": NAMES}, joining

    def number(self, name: str, key: LedgerKey | None) -> int:
        """Returns the number of one client.

        Raises:
            LedgerError: the ledger never saw it.
        """
        numbers, joining, _ = self.find([name], key)
        if joining is not None or numbers is None:
            raise LedgerError(f"the ledger knows no client {name!r}: name one that took part")
        return int(numbers[0])

    def _positions(self, count: int) -> dict[str, Any] | None:
        if count < 1:
            raise LedgerError("a federation has at least 1 client")
        if self.kind == NAMES:
            raise LedgerError("the ledger knows its clients by name: name the clients of this run too")
        if not self.kind:
            return {"first": 0, "count": count, "names": POSITIONS}
        if count != self.population:
            raise LedgerError(
                f"the ledger counts {self.population} clients by their positions, not {count}: who is who cannot be "
                "told, so name the clients"
            )
        return None

    def _placed(self, names: Sequence[str]) -> IntArray:
        for name in names:
            if not (name.isascii() and name.isdigit() and str(int(name)) == name and int(name) < self.population):
                raise LedgerError(
                    f"client {name} is outside the population 0 … {self.population - 1}, and the ledger knows its "
                    "clients by these positions alone: name them so"
                )
        return np.array([int(name) for name in names], np.int64)


def join_row(seq: int, body: dict[str, Any], digests: bytes) -> LedgerRow:
    """Returns the row that adds clients."""
    return LedgerRow(seq, "join", canonical(body), digests or None)


def _normal(name: str) -> str:
    """Returns a name with one spelling: two that look alike are one client."""
    if not isinstance(name, str) or not name or name != name.strip():
        raise LedgerError(f"client name {name!r} is empty, no text, or begins or ends with white space: correct it")
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _matched(known: bytes, wanted: bytes) -> IntArray:
    """Returns the place of each wanted digest among the known ones, −1 for those that are not there."""
    pool, asked = _pairs(known), _pairs(wanted)
    if _repeats(asked):
        raise LedgerError("clients repeat a name: name each client once")
    order = np.lexsort((pool["high"], pool["low"]))
    low, high = pool["low"][order], pool["high"][order]
    place = np.searchsorted(low, asked["low"])
    found = np.full(len(asked), -1, np.int64)
    open_ = np.arange(len(asked))
    while len(open_):
        # Halves that agree by chance stand side by side: look on until the other half agrees too.
        at = place[open_]
        inside = at < len(low)
        open_, at = open_[inside], at[inside]
        same = low[at] == asked["low"][open_]
        open_, at = open_[same], at[same]
        hit = high[at] == asked["high"][open_]
        found[open_[hit]] = order[at[hit]]
        open_ = open_[~hit]
        place[open_] += 1
    return found


def _repeats(pairs: NDArray[np.void]) -> bool:
    order = np.lexsort((pairs["high"], pairs["low"]))
    ordered = pairs[order]
    same = (ordered["low"][1:] == ordered["low"][:-1]) & (ordered["high"][1:] == ordered["high"][:-1])
    return bool(np.any(same))


def _pairs(digests: bytes) -> NDArray[np.void]:
    return np.frombuffer(digests, _PAIR)

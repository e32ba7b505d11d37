"""Who holds what: keyed digests of the clients' holdings, so that "client 17" cannot become somebody else.

Charges follow a client's name. Where records were dealt anew (another seed, another partition), the names stay and the
records move, and what a record has paid is forgotten. The ledger therefore remembers who held what when it paid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.cohort import Cohort
from sordino.account.ledger.entry import canonical
from sordino.account.ledger.keys import DIGEST, LedgerKey
from sordino.errors import LedgerError
from sordino.types import IntArray

_WHOLE, _EACH = b"sordino.holders", b"sordino.holder"

Holders = bytes | Sequence[bytes]
"""What the clients hold, as any bytes that tell holdings apart: one for all of them, or one a client."""


class Holdings:
    """What the clients of a ledger held.

    Formal guarantees: one digest for all binds a run to every earlier run of *the same* clients; a digest for each
    binds it to all earlier runs of any of them, under whatever name: who joins with the holdings of somebody who is
    away is refused. Rows hold keyed digests only.
    """

    def __init__(self) -> None:
        self._whole: dict[bytes, bytes] = {}
        self._each = np.zeros((0, DIGEST), np.uint8)
        self._told = np.zeros(0, np.bool_)

    @property
    def known(self) -> bool:
        """Whether any run said who holds what."""
        return bool(self._whole) or bool(self._told.any())

    def replay(self, row: LedgerRow, population: int) -> None:
        """Takes a `hold` row into account."""
        members = Cohort.unpack(row.cohort or b"", population).ids()
        body, digests = json.loads(row.body), row.excluded or b""
        if body["holders"] == "all" and len(members):
            if len(digests) != DIGEST:
                raise LedgerError("holders without a digest")
            self._whole[_group(members)] = digests
        elif len(members):
            self._grow(population)
            self._each[members] = np.frombuffer(digests, np.uint8).reshape(len(members), DIGEST)
            self._told[members] = True

    def check(
        self, holders: Holders, members: IntArray, key: LedgerKey, population: int
    ) -> tuple[IntArray, bytes, str]:
        """Returns what is to be remembered now: for which clients, which digests, of which kind (nothing: no clients).

        Raises:
            LedgerError: somebody holds something else than before, or the holders are not one a client.
        """
        if isinstance(holders, bytes):
            return self._check_whole(np.sort(members), key.digest(_WHOLE, holders))
        if len(holders) != len(members):
            raise LedgerError(
                f"holders name {len(holders)} holdings for {len(members)} clients: one a client is needed"
            )
        return self._check_each(members, key.digests(_EACH, holders), population)

    def _check_whole(self, members: IntArray, digest: bytes) -> tuple[IntArray, bytes, str]:
        before = self._whole.get(_group(members))
        if before is not None and before != digest:
            raise LedgerError(
                "the clients of this run have the names of earlier ones and hold other records: what each has spent "
                "cannot be told, so deal the records as before (same data, same partition, same seed)"
            )
        return (members, digest, "all") if before is None else (members[:0], b"", "all")

    def _check_each(self, members: IntArray, made: bytes, population: int) -> tuple[IntArray, bytes, str]:
        self._grow(population)
        digests: NDArray[np.uint8] = np.frombuffer(made, np.uint8).reshape(-1, DIGEST)
        told = self._told[members]
        changed = told & (digests != self._each[members]).any(axis=1)
        if changed.any():
            raise LedgerError(
                f"{int(changed.sum())} of {len(members)} clients hold other records than in an earlier run (client "
                f"{int(np.flatnonzero(changed)[0])} of this run first): what each has spent cannot be told, so deal "
                "the records as before (same data, same partition, same seed)"
            )
        new = np.flatnonzero(~told)
        self._refuse_renamed(members, digests, new)
        new = new[np.argsort(members[new])]
        return members[new], digests[new].tobytes(), "each"

    def _refuse_renamed(self, members: IntArray, digests: NDArray[np.uint8], new: IntArray) -> None:
        """Refuses newcomers that hold what somebody who is not in this run held: the same people under other names."""
        away = self._told.copy()
        away[members] = False
        found = new[np.isin(_words(digests[new]), _words(self._each[away]))] if away.any() else new[:0]
        if len(found):
            raise LedgerError(
                f"{len(found)} clients join under new names (client {int(found[0])} of this run first) and hold "
                "exactly what clients of an earlier run held who are not here: what they have spent would be "
                "forgotten, so give them the names that they had"
            )

    def _grow(self, population: int) -> None:
        more = population - len(self._told)
        if more > 0:
            self._each = np.concatenate([self._each, np.zeros((more, DIGEST), np.uint8)])
            self._told = np.concatenate([self._told, np.zeros(more, np.bool_)])


def _words(digests: NDArray[np.uint8]) -> NDArray[np.void]:
    """Returns digests as one value each, to be compared."""
    return np.ascontiguousarray(digests).view(np.dtype((np.void, DIGEST)))[:, 0]


def _group(members: IntArray) -> bytes:
    return hashlib.blake2b(members.tobytes(), digest_size=16).digest()


def hold_row(seq: int, members: IntArray, digests: bytes, kind: str, population: int) -> LedgerRow:
    """Returns the row that remembers who held what."""
    cohort = Cohort.of(members, population)
    return LedgerRow(seq, "hold", canonical({"holders": kind}), cohort.pack(), digests)

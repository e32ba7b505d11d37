"""The rows of a hash chain as they are read: each is checked, and so is that none is missing.

Formal guarantees: *Tamper-evident.* Every row's hash covers its content, its place and its predecessor; the head is
kept apart, so a missing last row is found too. Rows are checked whenever they are read. The file may hold our two
tables and nothing else: a trigger or a view could swallow or dress up rows. Whoever rewrites *all* of the chain is
found by comparing it with a head published earlier (`account.ledger.heads`).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sordino.account.ledger.schema import require_schema
from sordino.account.ledger.sqlite import sentences
from sordino.errors import LedgerTampered

GENESIS = bytes(32)
"""What the first row's predecessor hashes to."""
COLUMNS = "seq, kind, body, cohort, excluded, hash"


@dataclass(frozen=True)
class LedgerRow:
    """One line of the books, as stored."""

    seq: int
    kind: str
    body: str
    cohort: bytes | None = None
    excluded: bytes | None = None

    def chained(self, previous: bytes, salt: bytes) -> bytes:
        """Returns the hash that binds this row to its place and to everything before it."""
        digest = hashlib.blake2b(previous, digest_size=32, key=salt, person=b"sordino.ledger")
        for field in (str(self.seq).encode(), self.kind.encode(), self.body.encode(), self.cohort, self.excluded):
            digest.update(b"-" if field is None else b"+%d:" % len(field))
            digest.update(field or b"")
        return digest.digest()


class ChainReader:
    """Reads one ledger file; `HashChain` is one that can be written to."""

    def __init__(self, path: Path, connection: sqlite3.Connection, copy: TemporaryDirectory[str] | None) -> None:
        self.path = path
        self._connection = connection
        self._copy = copy
        self._salt = b""
        self._checked = (-1, GENESIS)
        """The last row that was read or written here, and its hash: all before it was checked."""
        self._schema: int | None = None
        self._version: int | None = None

    def _require_schema(self) -> None:
        """Looks at the file's tables again, if SQLite says that they changed."""
        if (schema := self._scalar("PRAGMA schema_version")) != self._schema:
            require_schema(self._connection, self.path)
            self._schema = schema

    @property
    def last(self) -> tuple[int, bytes]:
        """The place and the hash of the last row that was read or written here."""
        return self._checked

    def head(self) -> tuple[int, bytes]:
        """Returns the place and the hash of the last row (−1 and zeros when there is none)."""
        with sentences(self.path):
            found = self._connection.execute("SELECT seq, hash FROM head").fetchone()
        if found is None:
            raise LedgerTampered(f"ledger {self.path} has lost its head: restore it from a copy")
        return int(found[0]), bytes(found[1])

    def first(self) -> LedgerRow:
        """Returns the first row, unchecked."""
        with sentences(self.path):
            query = "SELECT seq, kind, body, cohort, excluded FROM rows WHERE seq = 0"
            found = self._connection.execute(query).fetchone()
        if found is None or found[1] != "open":
            raise LedgerTampered(f"ledger {self.path} has lost its first row: restore it from a copy")
        return LedgerRow(*found)

    def rows(self) -> list[LedgerRow]:
        """Returns all rows, in order, each of them checked."""
        return [row for row, _ in self._all()]

    def _all(self) -> list[tuple[LedgerRow, bytes]]:
        with self._snapshot():
            return list(self._walk(-1, GENESIS))

    def news(self) -> list[LedgerRow]:
        """Returns the rows that came since the last call or append, each of them checked.

        Raises:
            LedgerTampered: a row was edited, removed or moved, those read before included as far as the last of them
                and their number tell; or the file's tables changed.
        """
        with self._snapshot():
            if self._untouched():
                return []
            self._require_schema()
            fresh = list(self._walk(*self._checked))
            end = (fresh[-1][0].seq, fresh[-1][1]) if fresh else self._checked
            self._require_kept(bool(fresh))
            self._require_end(end)
        self._checked = end
        return [row for row, _ in fresh]

    def _untouched(self) -> bool:
        """Whether nobody else has written since all was read and checked: SQLite counts what others commit."""
        return self._scalar("PRAGMA data_version") == self._version and self.head() == self._checked

    def _walk(self, seq: int, previous: bytes) -> Iterator[tuple[LedgerRow, bytes]]:
        """Yields the rows behind `seq` with their hashes, checking place and hash of each."""
        self._salt = self._scalar("SELECT salt FROM head") or b""
        for *content, link in self._connection.execute(f"SELECT {COLUMNS} FROM rows WHERE seq > ? ORDER BY seq", [seq]):
            row, seq = LedgerRow(*content), seq + 1
            if row.seq != seq:
                raise LedgerTampered(f"ledger {self.path}: row {seq} is missing: restore it from a copy")
            if row.chained(previous, self._salt) != link:
                raise LedgerTampered(f"ledger {self.path}: row {seq} was changed or moved: restore it from a copy")
            yield row, link
            previous = link

    def _require_end(self, end: tuple[int, bytes]) -> None:
        if self.head() != end:
            raise LedgerTampered(f"ledger {self.path}: rows behind row {end[0]} are missing: restore it from a copy")

    def _require_kept(self, grown: bool) -> None:
        """Looks whether what was read before is still there."""
        seq, link = self._checked
        if seq >= 0 and self.link(seq) != link:
            raise LedgerTampered(
                f"ledger {self.path}: row {seq} was cut off or changed while the ledger was open: restore a copy"
            )
        if (version := self._scalar("PRAGMA data_version")) != self._version:
            if self._version is not None and not grown:
                # Somebody else wrote, and no row came of it: an honest writer does that only when it opens the file.
                for _ in self._walk(-1, GENESIS):
                    pass
            self._version = version

    def link(self, seq: int) -> bytes | None:
        """Returns the hash of a row, if there is one."""
        with sentences(self.path):
            found = self._connection.execute("SELECT hash FROM rows WHERE seq = ?", (seq,)).fetchone()
        return None if found is None else bytes(found[0])

    def place(self, link: str) -> int | None:
        """Returns the row whose hash (in hex) this is, if there is one."""
        try:
            wanted = bytes.fromhex(link)
        except ValueError:
            return None
        with sentences(self.path):
            found = self._connection.execute("SELECT seq FROM rows WHERE hash = ?", (wanted,)).fetchone()
        return None if found is None else int(found[0])

    def verify(self) -> list[tuple[LedgerRow, bytes]]:
        """Checks the file as SQLite sees it, and the whole chain from its first row; returns the rows and their hashes.

        Raises:
            LedgerTampered: naming the first row that was edited, removed or moved.
        """
        with sentences(self.path):
            if (found := self._scalar("PRAGMA integrity_check")) != "ok":
                raise LedgerTampered(f"ledger {self.path} is damaged ({found}): restore it from a copy")
        with self._snapshot():
            self._require_schema()
            found = self._all()
            self._require_end((found[-1][0].seq, found[-1][1]) if found else (-1, GENESIS))
        return found

    def close(self) -> None:
        """Closes the connection; the last one to close folds the write-ahead log into the file."""
        self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several questions, one state of the file."""
        with sentences(self.path):
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def _scalar(self, statement: str) -> Any:
        found = self._connection.execute(statement).fetchone()
        return found[0] if found else None

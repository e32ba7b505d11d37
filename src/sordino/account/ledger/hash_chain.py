"""An append-only, hash-chained table in SQLite: what was committed stays, and what was changed is found.

Formal guarantees:
    *Durable.* `append` returns after the commit has been fsync'd (write-ahead log, synchronous=FULL).
    *Serial.* Writers take SQLite's write lock before they read the head, so two processes never fork the chain.
    *Tamper-evident.* Every row's hash covers its content, its place and its predecessor; the head is kept apart, so a
    missing last row is found too. The chain has no secret: whoever rewrites *all* of it is found only by comparing the
    head with one published earlier (every certificate carries it).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.account.ledger.sqlite import connect, sentences, sync_folder
from sordino.errors import LedgerError, LedgerTampered

FORMAT = 1
_APPLICATION = 0x534F5244
_GENESIS = bytes(32)
_SCHEMA = (
    "CREATE TABLE rows (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, "
    "cohort BLOB, excluded BLOB, hash BLOB NOT NULL) STRICT",
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash BLOB NOT NULL) STRICT",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)


@dataclass(frozen=True)
class Row:
    """One line of the books, as stored."""

    seq: int
    kind: str
    body: str
    cohort: bytes | None = None
    excluded: bytes | None = None

    def chained(self, previous: bytes) -> bytes:
        """Returns the hash that binds this row to its place and to everything before it."""
        digest = hashlib.blake2b(previous, digest_size=32, person=b"sordino.ledger")
        for field in (str(self.seq).encode(), self.kind.encode(), self.body.encode(), self.cohort, self.excluded):
            digest.update(b"-" if field is None else b"+%d:" % len(field) + field)
        return digest.digest()


class Store:
    """A connection to one ledger file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path, *, first: str | None = None, write: bool = True) -> Store:
        """Opens the file; with `first`, makes it if it is missing, with this body in its first row.

        Raises:
            LedgerError: the file is missing, no ledger, of a newer format, locked or not writable.
        """
        if first is None and not path.is_file():
            raise LedgerError(f"ledger {path} does not exist: name the ledger file or the folder of a run")
        with sentences(path):
            store = cls(path, connect(path, create=first is not None, write=write))
        try:
            with sentences(path):
                store._prepare(first, write=write)
        except BaseException:
            store.close()
            raise
        return store

    def _prepare(self, first: str | None, *, write: bool) -> None:
        empty = not self._scalar("SELECT count(*) FROM sqlite_master")
        if not empty or first is None:
            self._require_ledger()
        if write:
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA journal_mode = WAL")
        if empty and first is not None:
            self._create(first)
        if write:
            # A full disk or a read-only file must show before a round starts, not after.
            with self.transaction():
                self._connection.execute("UPDATE head SET one = 1")

    def _require_ledger(self) -> None:
        if self._scalar("PRAGMA application_id") != _APPLICATION:
            raise LedgerError(f"{self.path} is not a sordino ledger: name another file")
        if (version := self._scalar("PRAGMA user_version")) > FORMAT:
            raise LedgerError(
                f"ledger {self.path} has format {version}, and this version reads up to {FORMAT}: upgrade sordino"
            )

    def _create(self, first: str) -> None:
        with self.transaction():
            # Another process may have been faster.
            if not self._scalar("SELECT count(*) FROM sqlite_master"):
                for statement in _SCHEMA:
                    self._connection.execute(statement)
                self._connection.execute("INSERT INTO head VALUES (1, -1, ?)", (_GENESIS,))
                self.append(lambda seq: Row(seq, "open", first))
        sync_folder(self.path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Holds the write lock; commits durably at the end, or leaves nothing behind."""
        with sentences(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def append(self, make: Callable[[int], Row]) -> Row:
        """Adds the row that `make` returns for the next place. Call inside a transaction."""
        seq, previous = self.head()
        row = make(seq + 1)
        link = row.chained(previous)
        values = (row.seq, row.kind, row.body, row.cohort, row.excluded, link)
        self._connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", values)
        self._connection.execute("UPDATE head SET seq = ?, hash = ?", (row.seq, link))
        return row

    def head(self) -> tuple[int, bytes]:
        """Returns the place and the hash of the last row (−1 and zeros when there is none)."""
        with sentences(self.path):
            found = self._connection.execute("SELECT seq, hash FROM head").fetchone()
        if found is None:
            raise LedgerTampered(f"ledger {self.path} has lost its head: restore it from a copy")
        return int(found[0]), bytes(found[1])

    def rows(self, after: int = -1, until: int | None = None) -> list[Row]:
        """Returns the rows behind `after`, up to `until`, in order."""
        query = "SELECT seq, kind, body, cohort, excluded FROM rows WHERE seq > ? AND seq <= ? ORDER BY seq"
        with sentences(self.path):
            return [
                Row(*found) for found in self._connection.execute(query, (after, 2**62 if until is None else until))
            ]

    def place(self, link: str) -> int | None:
        """Returns the row whose hash (in hex) this is, if there is one."""
        with sentences(self.path):
            found = self._connection.execute("SELECT seq FROM rows WHERE hash = ?", (bytes.fromhex(link),)).fetchone()
        return None if found is None else int(found[0])

    def verify(self) -> None:
        """Recomputes the whole chain.

        Raises:
            LedgerTampered: naming the first row that was edited, removed or moved.
        """
        with sentences(self.path):
            if (found := self._scalar("PRAGMA integrity_check")) != "ok":
                raise LedgerTampered(f"ledger {self.path} is damaged ({found}): restore it from a copy")
            stored = self._connection.execute("SELECT seq, kind, body, cohort, excluded, hash FROM rows ORDER BY seq")
            previous, expected = _GENESIS, 0
            for *content, link in stored:
                row = Row(*content)
                if row.seq != expected:
                    raise LedgerTampered(f"ledger {self.path}: row {expected} is missing: restore it from a copy")
                if row.chained(previous) != link:
                    raise LedgerTampered(
                        f"ledger {self.path}: row {row.seq} was changed or moved: restore it from a copy"
                    )
                previous, expected = link, expected + 1
        if self.head() != (expected - 1, previous):
            raise LedgerTampered(
                f"ledger {self.path}: rows behind row {expected - 1} are missing: restore it from a copy"
            )

    def close(self) -> None:
        """Closes the connection; the last one to close folds the write-ahead log into the file."""
        self._connection.close()

    def _scalar(self, statement: str) -> Any:
        found = self._connection.execute(statement).fetchone()
        return found[0] if found else None

"""An append-only, hash-chained table in SQLite: what was committed stays, and what was changed is found.

Formal guarantees:
    *Durable.* A transaction ends after its commit has been fsync'd (write-ahead log, synchronous=FULL), unless it asks
    to wait for the next one: then a machine that dies may lose it, and never what came before it.
    *Serial.* Writers take SQLite's write lock before they read the head, so two processes never fork the chain.
    *Tamper-evident.* Rows are read back before they are committed, and checked whenever they are read (`chain_reader`).
    *Hiding.* Hashes are keyed with a salt that stays in the file, so a published head tells nothing about its row, even
    to somebody who knows everything in that row but one client.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sordino.account.ledger.chain_reader import COLUMNS, GENESIS, ChainReader, LedgerRow
from sordino.account.ledger.schema import make_tables, require_format
from sordino.account.ledger.sqlite import connect, make, require_one_name, sentences, sync_name
from sordino.errors import LedgerError, LedgerTampered
from sordino.files import sync


class HashChain(ChainReader):
    """A connection to one ledger file."""

    def __init__(self, path: Path, connection: sqlite3.Connection, copy: TemporaryDirectory[str] | None) -> None:
        super().__init__(path, connection, copy)
        self._pending: tuple[int, bytes] | None = None
        self._durable = True

    @classmethod
    def open(cls, path: Path, *, create: bool = False, write: bool = True) -> HashChain:
        """Opens the file, or with `create` makes it; a new one is `empty` until `begin`.

        Raises:
            LedgerError: the file is missing, no ledger, of another format, locked, linked or not writable.
            LedgerTampered: it holds tables, triggers, views or indices that are not ours.
        """
        if not create and not path.is_file():
            raise LedgerError(f"ledger {path} does not exist: name the ledger file or the folder of a run")
        if create:
            make(path)
        if write:
            require_one_name(path)
        with sentences(path):
            chain = cls(path, *connect(path, write=write))
        try:
            with sentences(path):
                chain._prepare(create=create, write=write)
        except BaseException:
            chain.close()
            raise
        return chain

    def _prepare(self, *, create: bool, write: bool) -> None:
        if not (create and self.empty):
            require_format(self._connection, self.path)
            self._require_schema()
        if write:
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA journal_mode = WAL")

    @property
    def empty(self) -> bool:
        """Whether the file holds nothing at all yet."""
        with sentences(self.path):
            return not self._scalar("SELECT count(*) FROM sqlite_master")

    def begin(self, first: str) -> None:
        """Makes the tables of an empty file, and its first row with this body. Call inside a transaction."""
        self._salt = secrets.token_bytes(32)
        with sentences(self.path):
            make_tables(self._connection)
            self._connection.execute("INSERT INTO head VALUES (1, -1, ?, ?)", (GENESIS, self._salt))
        self.append(LedgerRow(0, "open", first))

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        """Holds the write lock; commits at the end, durably or with the next that does, or leaves nothing behind."""
        with sentences(self.path):
            if durable != self._durable:
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            self._connection.execute("BEGIN IMMEDIATE")
            self._pending = None
            try:
                yield
                self._commit()
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _commit(self) -> None:
        self._connection.execute("COMMIT")
        if self._pending is not None:
            self._checked = self._pending

    def touch(self) -> None:
        """Writes without changing anything: a full disk or a read-only file must show before a round starts."""
        self._connection.execute("UPDATE head SET one = 1")

    @property
    def next(self) -> int:
        """The place of the row that is appended next. Ask inside a transaction, after `news`."""
        return (self._pending or self._checked)[0] + 1

    def append(self, row: LedgerRow) -> LedgerRow:
        """Adds a row, whose place is `next`. Call inside a transaction, after `news`.

        Raises:
            LedgerTampered: what is read back is not what was written; nothing is kept.
        """
        _, previous = self._pending or self._checked
        link = row.chained(previous, self._salt)
        values = (row.seq, row.kind, row.body, row.cohort, row.excluded, link)
        with sentences(self.path):
            self._connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", values)
            self._connection.execute("UPDATE head SET seq = ?, hash = ?", (row.seq, link))
            stored = self._connection.execute(f"SELECT {COLUMNS} FROM rows WHERE seq = ?", (row.seq,)).fetchone()
        if stored != values or self.head() != (row.seq, link):
            raise LedgerTampered(
                f"ledger {self.path} did not keep row {row.seq} as it was written: nothing was released, restore the "
                "ledger from a copy"
            )
        self._pending = (row.seq, link)
        return row

    def sync(self) -> None:
        """Makes every commit so far durable, those that did not wait for it included.

        They are in the write-ahead log, or SQLite has folded it into the file, which it syncs first.
        """
        with self._writing():
            try:
                sync(self.path.with_name(f"{self.path.name}-wal"))
            except FileNotFoundError:
                sync(self.path)

    def synced(self) -> None:
        """Makes the file's name durable."""
        with self._writing():
            sync_name(self.path)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LedgerError(f"ledger {self.path} cannot be written ({error.strerror}): check the disk") from error

"""SQLite as the ledger uses it: how a file is opened, and how its errors become sentences."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sordino.errors import LedgerError, LedgerTampered

PATIENCE = 60.0
"""Seconds that a writer waits for another one."""


def connect(path: Path, *, create: bool, write: bool) -> sqlite3.Connection:
    """Opens a database file, for writing or for reading only.

    Who only reads opens it for writing too, and forbids itself to: SQLite then tidies its log away when the last one
    closes the file, which a reader could not.
    """
    mode = "rwc" if create else "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )
    if not write:
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # A folder that cannot be written cannot hold the log's index; without a log the file itself is complete.
            connection.close()
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)
    return connection


def sync_folder(path: Path) -> None:
    """Makes the name of a new file durable, not only its content."""
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into one sentence with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        said = str(error)
        if "full" in said:
            raise LedgerError(
                f"ledger {path} cannot grow, the disk is full: nothing was released, free some space"
            ) from error
        if "readonly" in said or "unable to open" in said:
            raise LedgerError(
                f"ledger {path} cannot be written: nothing was released, check the permissions"
            ) from error
        if "locked" in said:
            raise LedgerError(f"ledger {path} is held by another process: wait for it to end and try again") from error
        if "malformed" in said or "not a database" in said:
            raise LedgerTampered(f"ledger {path} is damaged ({said}): restore it from a copy") from error
        raise LedgerError(f"ledger {path} failed ({said}): nothing was released, check the disk") from error

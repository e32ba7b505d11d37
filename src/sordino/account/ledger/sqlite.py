"""SQLite as the ledger uses it: how a file is made and opened, and how its errors become sentences."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from sordino.errors import LedgerError, LedgerTampered
from sordino.files import sync

PATIENCE = 60.0
"""Seconds that a writer waits for another one."""
_TRIES = 20


def make(path: Path) -> None:
    """Makes an empty file that only its owner can read (SQLite's own files beside it inherit that); keeps one there.

    A folder that is missing is made too, for its owner alone; its own parent must be there.

    Raises:
        LedgerError: the folder or the file cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise LedgerError(
            f"ledger {path} cannot be written: nothing was released, check folder and permissions ({error.strerror})"
        ) from error


def require_one_name(path: Path) -> None:
    """Refuses to write to a file that has several names (hard links).

    SQLite's log goes by the name: who writes under another one sees nothing of it, and both spend the same budget.

    Raises:
        LedgerError: it has.
    """
    if path.stat().st_nlink > 1:
        raise LedgerError(
            f"ledger {path} has {path.stat().st_nlink} names (hard links), and whoever writes under another one would "
            "not see what is spent under this: keep one of them, or put a copy in its place (cp, then mv)"
        )


def connect(path: Path, *, write: bool) -> tuple[sqlite3.Connection, TemporaryDirectory[str] | None]:
    """Opens a database file, for writing or for reading only.

    Who only reads opens it for writing too, and forbids itself to: SQLite then tidies its log away when the last one
    closes the file, which a reader could not. Who may not write gets a private copy of file *and* log (which lives as
    long as the folder returned): the file alone lacks whatever the log holds.
    """
    if write:
        return _connect(path), None
    with suppress(sqlite3.OperationalError):
        connection = _connect(path)
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection, None
    copy = TemporaryDirectory(prefix="sordino-ledger-")
    try:
        return _connect(_copied(path, Path(copy.name))), copy
    except BaseException:
        copy.cleanup()
        raise


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _copied(path: Path, folder: Path) -> Path:
    """Copies file and log, as they were at one moment."""
    parts = (path, path.with_name(f"{path.name}-wal"))
    try:
        for _ in range(_TRIES):
            before = [_shape(part) for part in parts]
            for part, shape in zip(parts, before, strict=True):
                (folder / part.name).unlink(missing_ok=True)
                if shape is not None:
                    with suppress(FileNotFoundError):
                        shutil.copyfile(part, folder / part.name)
            if before == [_shape(part) for part in parts]:
                return folder / path.name
    except OSError as error:
        raise LedgerError(f"ledger {path} cannot be read ({error.strerror}): ask its owner for a copy") from error
    raise LedgerError(f"ledger {path} is being written to without pause: try again when the run has ended")


def _shape(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def sync_name(path: Path) -> None:
    """Makes the name of a new file durable, not only its content: its folder is synced, and the folder's own name."""
    parent = path.absolute().parent
    for place in (parent, parent.parent):
        with suppress(PermissionError):  # a folder above ours may be closed to us; it was then not we who made ours
            sync(place)


class sentences:
    """Turns SQLite's errors into one sentence with a remedy: `with sentences(path): …`."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeDecodeError):
            raise LedgerTampered(
                f"ledger {self.path} is damaged (text that is none): restore it from a copy"
            ) from error
        if isinstance(error, sqlite3.Error):
            raise _sentence(self.path, str(error)) from error


def _sentence(path: Path, said: str) -> LedgerError:
    if "full" in said:
        return LedgerError(f"ledger {path} cannot grow, the disk is full: nothing was released, free some space")
    if "readonly" in said or "unable to open" in said:
        return LedgerError(f"ledger {path} cannot be written: nothing was released, check the permissions")
    if "locked" in said:
        return LedgerError(f"ledger {path} is held by another process: wait for it to end and try again")
    if "malformed" in said or "not a database" in said:
        return LedgerTampered(f"ledger {path} is damaged ({said}): restore it from a copy")
    return LedgerError(f"ledger {path} failed ({said}): nothing was released, check the disk")

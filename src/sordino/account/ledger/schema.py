"""What a ledger file may hold: our two tables, and nothing that SQLite would run or read on our behalf."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sordino.errors import LedgerError, LedgerTampered

FORMAT = 2
_APPLICATION = 0x534F5244
_TABLES = {
    "rows": "CREATE TABLE rows (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, "
    "cohort BLOB, excluded BLOB, hash BLOB NOT NULL) STRICT",
    "head": "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash BLOB NOT NULL, "
    "salt BLOB NOT NULL) STRICT",
}


def make_tables(connection: sqlite3.Connection) -> None:
    """Makes the tables of an empty file, and marks it as ours."""
    for statement in _TABLES.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def require_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raises a LedgerError unless the file is a ledger of this format."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise LedgerError(f"{path} is not a sordino ledger: name another file")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise LedgerError(f"ledger {path} has format {version}, and this version reads up to {FORMAT}: upgrade sordino")
    if version < FORMAT:
        raise LedgerError(
            f"ledger {path} has the old format {version}, which does not know who its clients are: keep it, "
            "and lower the budget of a new ledger by what it says they spent"
        )


def require_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raises a LedgerTampered at a table, trigger, view or index that is not ours, or where one of ours is not."""
    master = connection.execute("SELECT type, name, sql FROM sqlite_master")
    found = {name: (kind, sql) for kind, name, sql in master}
    for name in found.keys() | _TABLES.keys():
        if found.get(name) != ("table", _TABLES.get(name)):
            what = f"a {found[name][0]} {name!r} that is not its own" if name in found else f"no table {name!r}"
            raise LedgerTampered(f"ledger {path} has {what}: restore it from a copy")

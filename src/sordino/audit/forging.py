"""What somebody with an editor can do to a ledger's files: the tools of the forgetting games."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sordino.account.ledger.chain_reader import LedgerRow

Rewrite = Callable[[Sequence[LedgerRow]], Sequence[LedgerRow]]

FROZEN = (
    "CREATE TRIGGER quiet BEFORE INSERT ON rows BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER still BEFORE UPDATE ON head BEGIN SELECT RAISE(IGNORE); END",
)
"""Triggers that swallow every row from now on, and leave the head where it is."""


def tamper(path: Path, *statements: str) -> None:
    """Runs SQL on the ledger's file."""
    raw = sqlite3.connect(path)
    try:
        for statement in statements:
            raw.execute(statement)
        raw.commit()
    finally:
        raw.close()


def rewritten(path: Path, edit: Rewrite) -> None:
    """Writes the whole chain anew, with fresh hashes."""
    raw = sqlite3.connect(path)
    try:
        found = raw.execute("SELECT seq, kind, body, cohort, excluded FROM rows ORDER BY seq").fetchall()
        (salt,) = raw.execute("SELECT salt FROM head").fetchone()
        raw.execute("DELETE FROM rows")
        link, seq = bytes(32), -1
        for seq, row in enumerate(edit([LedgerRow(*row) for row in found])):
            moved = replace(row, seq=seq)
            link = moved.chained(link, salt)
            values = (seq, moved.kind, moved.body, moved.cohort, moved.excluded, link)
            raw.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", values)
        raw.execute("UPDATE head SET seq = ?, hash = ?", (seq, link))
        raw.commit()
    finally:
        raw.close()


def to_nothing(rows: Sequence[LedgerRow]) -> Sequence[LedgerRow]:
    """Makes every settlement say that nothing was released."""
    nothing = {"charges": [], "costs": [], "digest": ""}
    return [
        replace(row, body=json.dumps(json.loads(row.body) | nothing)) if row.kind == "settle" else row for row in rows
    ]


def image(folder: Path, to: Path) -> Path:
    """Copies a folder as a crash of the machine would leave it: the database and its log as they are now."""
    shutil.copytree(folder, to)
    for shared in to.glob("*-shm"):
        shared.unlink()
    return to


def cut(file: Path) -> None:
    """Cuts a file to a quarter."""
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 4])

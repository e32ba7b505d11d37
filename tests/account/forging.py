"""What somebody with a hex editor, and perhaps with the ledger's key, can do to a ledger."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.heads import HeadLog, heads_path
from sordino.account.ledger.keys import LedgerKey, key_path


def tamper(path: Path, *statements: str) -> None:
    """Runs SQL on the ledger's file."""
    raw = sqlite3.connect(path)
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


def forge(
    path: Path, edit: Callable[[list[LedgerRow]], list[LedgerRow]], resign: bool = False, log: Path | None = None
) -> None:
    """Writes the whole chain anew with fresh hashes; with `resign`, also its head log, with the stolen key."""
    raw = sqlite3.connect(path)
    found = raw.execute("SELECT seq, kind, body, cohort, excluded FROM rows ORDER BY seq").fetchall()
    (salt,) = raw.execute("SELECT salt FROM head").fetchone()
    link, links = bytes(32), {}
    raw.execute("DELETE FROM rows")
    for seq, row in enumerate(edit([LedgerRow(*row) for row in found])):
        row = replace(row, seq=seq)
        link = links[seq] = row.chained(link, salt)
        values = (seq, row.kind, row.body, row.cohort, row.excluded, link)
        raw.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", values)
    raw.execute("UPDATE head SET seq = ?, hash = ?", (max(links), link))
    raw.commit()
    raw.close()
    if resign:
        heads, key = log or heads_path(path), LedgerKey.load(key_path(path))
        heads.unlink()
        new = HeadLog(heads)
        for seq, one in links.items():
            new.publish(seq, one.hex(), key, links.get)
        new.close()


def image(folder: Path, to: Path) -> Path:
    """Copies a folder as a crash of the machine would leave it: the database and its log as they are now."""
    shutil.copytree(folder, to)
    for shared in to.glob("*-shm"):
        shared.unlink()
    return to


def as_somebody_else(act: Callable[[], str]) -> str:
    """Runs `act` in a child without root's rights (root may write anywhere), and returns what it said."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.write(writer, act().encode())
        except BaseException as error:
            os.write(writer, f"failed: {error!r}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return file.read()

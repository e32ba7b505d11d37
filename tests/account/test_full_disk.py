"""A disk that is full or cannot be written stops the round before anything is released."""

import os
import resource
import tempfile
from errno import ENOSPC
from pathlib import Path

import numpy as np
import pytest
from tests.account.forging import as_somebody_else

from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError
from sordino.events import Charge, GaussianDpEvent, Guarantee

CHARGE = (Charge(Guarantee("client", "server", "zero_out"), GaussianDpEvent(2.0)),)


def release_until_it_fails(ledger, rounds=4000):
    """Reserves, then "releases"; returns how many were released when the ledger refused."""
    released = 0
    cohort = np.arange(0, 100_000, 7)
    for number in range(rounds):
        ledger.reserve("run", number, cohort, CHARGE)
        released += 1
    return released


@pytest.fixture
def path(tmp_path):
    Ledger.open(tmp_path / "ledger.db", "f", 100_000, create=True).close()
    return tmp_path / "ledger.db"


def test_a_full_disk_refuses_the_reservation_and_loses_nothing(path):
    with Ledger.open(path) as ledger:
        pages = ledger._chain._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._chain._connection.execute(f"PRAGMA max_page_count = {pages + 10}")
        with pytest.raises(LedgerError, match="disk is full: nothing was released"):
            release_until_it_fails(ledger)
        kept = len(ledger.entries)
        ledger._chain._connection.execute("PRAGMA max_page_count = 1000000")
        assert ledger.reserve("run", kept, np.array([1]), CHARGE) == kept + 2
    with Ledger.open(path) as ledger:
        ledger.verify()
        assert len(ledger.entries) == kept + 1


def test_a_file_that_may_not_grow_refuses_the_reservation(path):
    """The operating system itself refuses to write more (RLIMIT_FSIZE), in the middle of whatever SQLite is doing."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            import signal

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            with Ledger.open(path) as ledger:
                resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
                try:
                    release_until_it_fails(ledger)
                except LedgerError as refused:
                    code = 42 if "nothing was released" in str(refused) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    with Ledger.open(path) as ledger:
        ledger.verify()
        assert ledger.entries


@pytest.mark.parametrize("folder_mode", [0o755, 0o555])
def test_a_read_only_ledger_can_be_read_and_refuses_to_be_charged(folder_mode):
    def act():
        with Ledger.open(path, write=False) as ledger:
            ledger.verify()
            told = f"{len(ledger.entries)} entries; "
        try:
            Ledger.open(path, "f", 10, create=True)
        except LedgerError as refused:
            return told + str(refused)
        return told + "opened"

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        with Ledger.open(path, "f", 10, create=True) as ledger:
            ledger.reserve("run", 1, np.array([1]), CHARGE)
        path.chmod(0o444)
        Path(folder).chmod(folder_mode)
        told = as_somebody_else(act)
        Path(folder).chmod(0o755)
    assert told.startswith("1 entries; ")
    assert "cannot be written: nothing was released" in told


def test_a_database_gone_read_only_under_way_refuses(path):
    with Ledger.open(path) as ledger:
        ledger.reserve("run", 0, np.array([1]), CHARGE)
        ledger._chain._connection.execute("PRAGMA query_only = 1")
        with pytest.raises(LedgerError, match="cannot be written: nothing was released"):
            ledger.reserve("run", 1, np.array([1]), CHARGE)
        assert len(ledger.entries) == 1


def test_a_ledger_held_by_another_process_says_so(path):
    import sqlite3

    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="another process"):
        _open_impatiently(path)
    holder.execute("ROLLBACK")
    holder.close()
    Ledger.open(path).close()


def _open_impatiently(path):
    from sordino.account.ledger import sqlite

    patience, sqlite.PATIENCE = sqlite.PATIENCE, 0.05
    try:
        Ledger.open(path)
    finally:
        sqlite.PATIENCE = patience


@pytest.mark.parametrize("call", ["fsync", "replace", "write", "open"])
def test_wherever_the_disk_refuses_a_new_ledger_it_is_one_sentence_and_nothing_half_made(tmp_path, monkeypatch, call):
    """Every call that makes a ledger is refused once; syncing its name ended in a traceback, half a key was left."""
    real, number = getattr(os, call), 0
    while True:
        number, left, folder = number + 1, number + 1, tmp_path / str(number)
        folder.mkdir()

        def refused(*arguments, **more):
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            return real(*arguments, **more)

        monkeypatch.setattr(os, call, refused)
        try:
            Ledger.open(folder / "ledger.db", "f", 3, create=True).close()
        except LedgerError as error:
            assert "No space left" in str(error)
        monkeypatch.undo()
        assert not list(folder.glob("*.new"))
        with Ledger.open(folder / "ledger.db", "f", 3, create=True) as ledger:
            ledger.verify()
        if left > 0:
            break
    assert number > 1

"""A witness is a file of its own: nothing else is taken for one, and nothing that somebody keeps is overwritten."""

import os
from errno import EIO

import pytest

from sordino.account.ledger.heads import HeadLog, heads_path
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError, LedgerTampered


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("end", ["", "-wal", "-shm", ".key", ".heads.jsonl"])
@pytest.mark.parametrize("how", ["name", "symlink", "hard link"])
def test_the_ledgers_own_files_are_no_witness(tmp_path, end, how, made):
    """Its head log vouched for itself; a new ledger's write-ahead log was damaged."""
    path = tmp_path / "ledger.db"
    if made or how == "hard link":
        Ledger.open(path, "f", 3, create=True).close()
    own, witness = path.with_name(path.name + end), tmp_path / "witness"
    if how == "name":
        witness = tmp_path / "." / own.name
    elif how == "symlink":
        witness.symlink_to(own)
    elif own.exists():
        witness.hardlink_to(own)
    else:
        pytest.skip("not there to be linked")
    with pytest.raises(LedgerError, match="own file"):
        Ledger.open(path, "f", 3, create=True, witness=witness)
    if how == "hard link":
        witness.unlink()  # a ledger of two names is not written to
    with Ledger.open(path, "f", 3, create=True) as ledger:
        ledger.verify()


@pytest.mark.parametrize("text", ["a note without an end of line", "{}", "\0\0a", '{"heads'])
def test_a_file_of_somebody_elses_is_left_as_it_is(tmp_path, text):
    """It was taken for an unfinished line, and cut off."""
    witness = tmp_path / "note.txt"
    witness.write_text(text)
    with pytest.raises(LedgerError, match="something else"):
        Ledger.open(tmp_path / "ledger.db", "f", 3, create=True, witness=witness)
    assert witness.read_text() == text


@pytest.mark.parametrize("torn", [b"", b"{", b'{"head":"12', b"\0" * 40, b'{"head":\0\0\0'])
def test_a_line_that_a_crash_cut_short_is_still_mended(tmp_path, torn):
    path, witness = tmp_path / "ledger.db", tmp_path / "witness"
    witness.write_bytes(torn)
    Ledger.open(path, "f", 3, create=True, witness=witness).close()
    told, kept = HeadLog(heads_path(path)).all(), HeadLog(witness).all()  # each with the time when it was written
    assert [(line.seq, line.head) for line in kept] == [(line.seq, line.head) for line in told] != []


def test_what_is_no_ordinary_file_is_refused(tmp_path):
    """A pipe was waited for without end; /dev/null took every head and ended in a traceback."""
    os.mkfifo(tmp_path / "pipe")
    for witness in (tmp_path / "pipe", tmp_path, "/dev/null"):
        with pytest.raises(LedgerError, match="no ordinary file"):
            Ledger.open(tmp_path / "ledger.db", "f", 3, create=True, witness=type(tmp_path)(witness))


def test_a_head_log_that_cannot_be_synced_says_so_in_one_sentence(tmp_path, monkeypatch):
    ledger, sync = Ledger.open(tmp_path / "ledger.db", "f", 3, create=True), os.fsync
    logs = {log._file for log in ledger._logs}

    def refused(file):
        if file in logs:
            raise OSError(EIO, os.strerror(EIO))
        sync(file)

    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(LedgerError, match="cannot be synced"):
        ledger.close()
    monkeypatch.undo()
    with Ledger.open(tmp_path / "ledger.db", "f", 3) as ledger:
        ledger.verify()


@pytest.mark.parametrize("how", ["emptied", "removed", "torn"])
@pytest.mark.parametrize("write", [True, False])
def test_a_witness_that_held_heads_and_holds_none_is_found_out(tmp_path, how, write):
    """It counted as a new one, and whoever rolled the ledger back had only to empty it."""
    path, witness = tmp_path / "ledger.db", tmp_path / "witness"
    Ledger.open(path, "f", 3, create=True, witness=witness).close()
    Ledger.open(path, "f", 3, witness=witness).close()
    text = witness.read_bytes()
    {"emptied": lambda: witness.write_bytes(b""), "removed": witness.unlink, "torn": lambda: witness.write_bytes(b"{")}[
        how
    ]()
    with pytest.raises(LedgerTampered, match=r"held heads of this ledger.*restore"):
        Ledger.open(path, "f", 3, witness=witness, write=write)
    witness.write_bytes(text)
    with Ledger.open(path, "f", 3, witness=witness) as ledger:
        assert sum(row.kind == "witness" for row, _ in ledger._chain.verify()) == 1
        ledger.verify()
    with Ledger.open(path, "f", 3, witness=tmp_path / "another") as ledger:  # which has never had any
        ledger.verify()

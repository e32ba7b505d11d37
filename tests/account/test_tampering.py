"""Whatever is done to the file afterwards, `verify` finds it."""

import random
import sqlite3

import numpy as np
import pytest

from sordino.account.ledger.hash_chain import Row
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError, LedgerTampered
from sordino.events import Charge, GaussianDpEvent, Guarantee

SERVER = Guarantee("client", "server", "zero_out")
CHARGE = (Charge(SERVER, GaussianDpEvent(2.0)),)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.db"
    with Ledger.open(path, "hospitals", 50, create=True) as ledger:
        for number in range(6):
            ledger.settle(ledger.reserve("run", number, np.array([number, 40]), CHARGE), CHARGE)
        ledger.verify()
    return path


def tamper(path, *statements):
    raw = sqlite3.connect(path)
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


def verify(path):
    with Ledger.open(path, write=False) as ledger:
        ledger.verify()


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE rows SET body = replace(body, '2.0', '9.0') WHERE seq = 5"],
        ["UPDATE rows SET kind = 'settle' WHERE seq = 3"],
        ["UPDATE rows SET cohort = (SELECT cohort FROM rows WHERE seq = 3) WHERE seq = 5"],
        ["UPDATE rows SET cohort = NULL WHERE seq = 5"],
        ["UPDATE rows SET excluded = NULL WHERE seq = 5"],
        ["UPDATE rows SET hash = zeroblob(32) WHERE seq = 5"],
        ["DELETE FROM rows WHERE seq = 5"],
        ["DELETE FROM rows WHERE seq = 12"],
        ["DELETE FROM rows WHERE seq > 6"],
        ["DELETE FROM rows"],
        ["DELETE FROM head"],
        ["UPDATE head SET seq = 11"],
        [f"UPDATE rows SET seq = {new} WHERE seq = {old}" for old, new in ((3, -1), (5, 3), (-1, 5))],
        ["INSERT INTO rows SELECT 13, kind, body, cohort, excluded, hash FROM rows WHERE seq = 12"],
        ["UPDATE rows SET body = replace(body, '\"round\":0', '\"round\":9') WHERE seq = 1"],
        ["UPDATE rows SET body = 'nothing' WHERE seq = 0"],
    ],
)
def test_an_edited_deleted_or_reordered_row_is_found(path, statements):
    tamper(path, *statements)
    with pytest.raises(LedgerTampered):
        verify(path)


def test_a_chain_rewritten_with_a_cheaper_cost_is_found_by_its_events(path):
    """Whoever recomputes the hashes still has to make the stated ε follow from the events."""
    raw = sqlite3.connect(path)
    rows = raw.execute("SELECT seq, kind, body, cohort, excluded FROM rows ORDER BY seq").fetchall()
    link = bytes(32)
    for content in rows:
        row = Row(*content)
        if row.seq == 1:
            row = Row(row.seq, row.kind, row.body.replace('"costs":[1.99', '"costs":[0.99'), row.cohort, row.excluded)
            assert '"costs":[0.99' in row.body
        link = row.chained(link)
        raw.execute("UPDATE rows SET body = ?, hash = ? WHERE seq = ?", (row.body, link, row.seq))
    raw.execute("UPDATE head SET hash = ?", (link,))
    raw.commit()
    raw.close()
    with pytest.raises(LedgerTampered, match="row 1 states"):
        verify(path)


def test_every_flipped_bit_of_a_row_is_found(path):
    """Each bit of each stored row, one at a time (a sample): content, place and hash are all covered."""
    raw = sqlite3.connect(path)
    rows = raw.execute("SELECT seq, body, cohort, hash FROM rows").fetchall()
    raw.close()
    rng = random.Random(0)
    for _ in range(40):
        seq, body, cohort, link = rng.choice(rows)
        column, value = rng.choice([("body", body.encode()), ("cohort", cohort), ("hash", link)])
        if value is None:
            continue
        place = rng.randrange(8 * len(value))
        flipped = bytearray(value)
        flipped[place // 8] ^= 1 << place % 8
        raw = sqlite3.connect(path)
        kind = "TEXT" if column == "body" else "BLOB"
        raw.execute(f"UPDATE rows SET {column} = CAST(? AS {kind}) WHERE seq = ?", (bytes(flipped), seq))
        raw.commit()
        raw.close()
        with pytest.raises(LedgerError):
            verify(path)
        raw = sqlite3.connect(path)
        raw.execute(f"UPDATE rows SET {column} = ? WHERE seq = ?", (body if column == "body" else value, seq))
        raw.commit()
        raw.close()
    verify(path)


def test_flipped_bits_of_the_file_are_found_or_harmless(path):
    """A bit of the file itself: either it is found, or the books still say exactly what they said."""
    pristine = path.read_bytes()
    with Ledger.open(path, write=False) as ledger:
        rows = ledger._store.rows()
    rng, found = random.Random(1), 0
    for _ in range(150):
        data = bytearray(pristine)
        place = rng.randrange(8 * len(data))
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        try:
            with Ledger.open(path, write=False) as ledger:
                ledger.verify()
                assert ledger._store.rows() == rows
        except LedgerError:
            found += 1
    assert found > 30

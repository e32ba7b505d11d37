"""Whatever is done to the file afterwards, `verify` finds it."""

import random
import sqlite3

import numpy as np
import pytest
from tests.account.forging import tamper

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


def verify(path):
    with Ledger.open(path, write=False) as ledger:
        ledger.verify()


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE rows SET body = replace(body, '2.0', '9.0') WHERE seq = 5"],
        ["UPDATE rows SET kind = 'settle' WHERE seq = 4"],
        ["UPDATE rows SET cohort = (SELECT cohort FROM rows WHERE seq = 4) WHERE seq = 6"],
        ["UPDATE rows SET cohort = NULL WHERE seq = 6"],
        ["UPDATE rows SET excluded = NULL WHERE seq = 6"],
        ["UPDATE rows SET hash = zeroblob(32) WHERE seq = 5"],
        ["DELETE FROM rows WHERE seq = 5"],
        ["DELETE FROM rows WHERE seq = 13"],
        ["DELETE FROM rows WHERE seq > 6"],
        ["DELETE FROM rows"],
        ["DELETE FROM head"],
        ["UPDATE head SET seq = 12"],
        [f"UPDATE rows SET seq = {new} WHERE seq = {old}" for old, new in ((3, -1), (5, 3), (-1, 5))],
        ["INSERT INTO rows SELECT 14, kind, body, cohort, excluded, hash FROM rows WHERE seq = 13"],
        ["UPDATE rows SET body = replace(body, '\"round\":0', '\"round\":9') WHERE seq = 2"],
        ["UPDATE rows SET body = 'nothing' WHERE seq = 0"],
    ],
)
def test_an_edited_deleted_or_reordered_row_is_found(path, statements):
    tamper(path, *statements)
    with pytest.raises(LedgerTampered):
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
        rows = ledger._chain.rows()
    rng, found = random.Random(1), 0
    for _ in range(150):
        data = bytearray(pristine)
        place = rng.randrange(8 * len(data))
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        try:
            with Ledger.open(path, write=False) as ledger:
                ledger.verify()
                assert ledger._chain.rows() == rows
        except LedgerError:
            found += 1
    assert found > 30

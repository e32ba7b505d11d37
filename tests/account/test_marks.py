"""A mark tells released values apart as a digest does: by every bit, and by the ledger's key."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sordino.account.ledger import keys
from sordino.account.ledger.keys import LedgerKey
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError

KEY = LedgerKey(bytes(32), bytes(range(32)))
VALUES = np.random.default_rng(0).standard_normal(1000).astype(np.float32)


def test_a_mark_is_the_tag_of_all_contents_in_order():
    whole = AESGCM(KEY._marker).encrypt(bytes(12), b"", VALUES.tobytes() * 2).hex()
    assert KEY.mark([VALUES.data, VALUES.reshape(10, 100).data]) == whole


def test_pieces_change_nothing(monkeypatch):
    whole = KEY.mark([VALUES.data])
    monkeypatch.setattr(keys, "_PIECE", 1001)
    assert KEY.mark([VALUES.data]) == whole


@pytest.mark.parametrize("place", [0, 499, 999])
def test_the_lowest_bit_of_any_value_changes_it(place):
    other = VALUES.copy()
    other.view(np.uint32)[place] ^= 1
    assert KEY.mark([other.data]) != KEY.mark([VALUES.data])


def test_so_does_another_key_and_having_told_nothing():
    others = [LedgerKey(bytes(32), bytes(32)).mark([VALUES.data]), KEY.mark([]), KEY.mark([VALUES[:0].data])]
    assert others[1] == others[2]
    assert len({KEY.mark([VALUES.data]), *others}) == 3


def test_who_only_reads_marks_nothing(tmp_path):
    Ledger.open(tmp_path / "ledger.db", "all", 3, create=True).close()
    with (
        Ledger.open(tmp_path / "ledger.db", write=False) as ledger,
        pytest.raises(LedgerError, match="opened for reading"),
    ):
        ledger.mark([VALUES.data])

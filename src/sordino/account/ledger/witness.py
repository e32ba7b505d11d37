"""A witness: another file to which a ledger's heads are published, best out of its writers' reach."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.entry import canonical
from sordino.account.ledger.heads import digest_of
from sordino.errors import LedgerError


def require_apart(witness: Path | None, own: Sequence[Path]) -> None:
    """Refuses a witness that is one of the ledger's own files, by whatever name: it would vouch for itself.

    Raises:
        LedgerError: it is.
    """
    if witness is None:
        return
    for file in own:
        if os.path.realpath(witness) == os.path.realpath(file) or (
            witness.exists() and file.exists() and witness.samefile(file)
        ):
            raise LedgerError(
                f"witness {witness} is the ledger's own file {file}: name another one, best out of its writers' reach"
            )


def witness_name(witness: Path) -> str:
    """Returns a digest of where a witness lies, under which its ledger remembers it."""
    return digest_of(os.fsencode(os.path.realpath(witness)))


def witness_row(seq: int, witness: Path) -> LedgerRow:
    """Returns the row that remembers a witness that holds heads."""
    return LedgerRow(seq, "witness", canonical({"file": witness_name(witness)}))

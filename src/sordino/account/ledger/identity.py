"""A ledger's first row: whose it is, at which δ it quotes, who signs for it, and where its heads are published."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from sordino.account.ledger.entry import canonical, now
from sordino.account.ledger.hash_chain import HashChain
from sordino.account.ledger.heads import HeadLog, heads_path
from sordino.account.ledger.keys import LedgerKey, key_path
from sordino.account.ledger.state import readable
from sordino.errors import LedgerError, LedgerTampered


@dataclass(frozen=True)
class LedgerIdentity:
    """What is fixed when a ledger is made."""

    federation: str
    delta: float
    public: str
    """The public half of the ledger's key, in hex."""
    heads: str
    """The head log, seen from the ledger's folder, so that both can be moved; empty when it lies beside it."""

    @classmethod
    def of(cls, chain: HashChain) -> LedgerIdentity:
        """Reads the first row."""
        first = chain.first()
        with readable(chain.path, 0):
            body = json.loads(first.body)
            return cls(str(body["federation"]), float(body["delta"]), str(body["key"]), str(body["heads"]))

    def log(self, ledger: Path, elsewhere: Path | None = None) -> HeadLog:
        """Returns the ledger's head log, or the copy of it that the reader names."""
        if elsewhere is None and self.heads:
            elsewhere = Path(os.path.normpath(ledger.absolute().parent / self.heads))
        return HeadLog(elsewhere or heads_path(ledger))

    def key(self, ledger: Path) -> LedgerKey:
        """Returns the ledger's key.

        Raises:
            LedgerError: it is missing, or is another ledger's.
        """
        key = LedgerKey.load(key_path(ledger))
        if key.public != self.public:
            raise LedgerError(f"ledger key {key_path(ledger)} is not the key of {ledger}: restore its own")
        return key

    def require(self, federation: str | None, ledger: Path) -> None:
        """Refuses another federation's ledger."""
        if federation is not None and federation != self.federation:
            raise LedgerError(
                f"ledger {ledger} belongs to federation {self.federation!r}, not {federation!r}: name its own ledger"
            )


def begin(chain: HashChain, federation: str, delta: float, heads: Path | None) -> None:
    """Writes the first row of an empty ledger, and its key. Call inside a transaction."""
    log, path = heads or heads_path(chain.path), key_path(chain.path)
    if HeadLog(log).last() is not None:
        raise LedgerTampered(_removed(chain.path, log))
    # A key without a ledger can only be what a killed process left: `refuse_remains` has looked.
    key = LedgerKey.load(path) if path.exists() else LedgerKey.make(path)
    seen = os.path.relpath(log.absolute(), chain.path.absolute().parent) if heads else ""
    body = {"federation": federation, "delta": delta, "key": key.public, "heads": seen, "time": now()}
    chain.begin(canonical(body))
    chain.synced()


def refuse_remains(ledger: Path, heads: Path | None) -> None:
    """Refuses to start a ledger anew in the place of one that was removed: that would forget what was spent.

    Raises:
        LedgerTampered: its key or its published heads are still there.
    """
    if not ledger.exists():
        for left in (heads or heads_path(ledger), key_path(ledger)):
            if left.exists():
                raise LedgerTampered(_removed(ledger, left))


def _removed(ledger: Path, left: Path) -> str:
    return f"ledger {ledger} is gone and {left} is still there: restore the ledger from a copy, it holds what was spent"

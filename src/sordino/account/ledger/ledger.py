"""The ledger: every release of a federation, who paid for it, and what it cost; written before it happens.

How it is opened, and checked on the way; `reading` has what can be asked of it, `writing` what a run writes to it. The
ledger belongs to a federation, not to a run: a second run over the same clients starts from what they have spent.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np

from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.clients import NAMES, Clients, join_row
from sordino.account.ledger.hash_chain import HashChain
from sordino.account.ledger.heads import HeadLog, check_last
from sordino.account.ledger.holders import Holders, hold_row
from sordino.account.ledger.identity import LedgerIdentity, begin, refuse_remains
from sordino.account.ledger.witness import require_apart, witness_name, witness_row
from sordino.account.ledger.writing import LedgerWriter
from sordino.errors import LedgerError, LedgerTampered

_BESIDE = ("-wal", "-shm", "-journal", ".key", ".key.new")
"""Endings of the files that belong to a ledger and hold no heads."""


class Ledger(LedgerWriter):
    """The durable record of one federation.

    Formal guarantees: those of `LedgerWriter`, and what was reserved stays found: rows are checked whenever they are
        read, and heads are signed and published (`account.ledger.heads`), so a ledger that was cut, rolled back or
        rewritten is refused when it is opened.
    """

    @classmethod
    def open(
        cls,
        path: Path | str,
        federation: str | None = None,
        clients: Clients | None = None,
        *,
        create: bool = False,
        write: bool = True,
        delta: float = 1e-5,
        until: str | None = None,
        head: str | None = None,
        holders: Holders | None = None,
        heads: Path | None = None,
        witness: Path | None = None,
    ) -> Ledger:
        """Opens a ledger, or with `create` starts one; checks all of it on the way.

        Args:
            path: the file. Its key lies beside it, as do its published heads unless `heads` says otherwise.
            federation: whose books these are; None reads any.
            clients: the run's clients, by name in the order of their ids, or how many there are (they then go by
                position, "0", "1", …). Newcomers join the ledger. None: all clients of the ledger, by its own numbers.
            create: a run begins: make the file when it is missing (needs federation and clients), and write down who
                joins even if nobody does. A run that goes on never does.
            write: False opens for reading only.
            delta: the δ at which the cost of single releases is written down.
            until: the head (in hex) of an earlier state to read, for instance a certificate's.
            head: a head that the ledger must contain, for instance the one in a checkpoint.
            holders: who holds what (`account.ledger.holders`); once told, every run has to tell it.
            heads: where heads are published: told when the ledger is made, and remembered; a reader may name a copy.
            witness: another file to which heads are published, best where the ledger's writers cannot change it.

        Raises:
            LedgerError: another federation's ledger, other clients or holders, another format, a file that cannot be
                used.
            LedgerTampered: the ledger was edited, cut, rolled back, rewritten or removed.
        """
        path = Path(path)
        if not path.name:
            raise LedgerError("the ledger's path (ledger.path) names no file: give one, such as ledger.db")
        if create and (federation is None or clients is None):
            raise LedgerError("a new ledger needs a federation and at least 1 client")
        require_apart(witness, [path, *(path.with_name(path.name + end) for end in _BESIDE)])
        if create:
            refuse_remains(path, heads)
        chain = HashChain.open(path, create=create, write=write)
        try:
            with chain.transaction() if write else nullcontext():
                if create and chain.empty:
                    begin(chain, str(federation), delta, heads)
                ledger = cls._checked(chain, federation, until, write, heads, witness)
                rows = ledger._admit(clients, holders, write=write, begins=create)
                if write:
                    chain.touch()
            ledger._replay(rows)
            if head is not None:
                ledger.must_contain(head)
            if write:
                ledger._publish(*chain.last)
                ledger._remember(witness)
        except BaseException:
            chain.close()
            raise
        return ledger

    @classmethod
    def _checked(
        cls,
        chain: HashChain,
        federation: str | None,
        until: str | None,
        write: bool,
        heads: Path | None,
        witness: Path | None,
    ) -> Ledger:
        """Reads everything, and holds it against what was published."""
        identity = LedgerIdentity.of(chain)
        identity.require(federation, chain.path)
        require_apart(witness, [identity.log(chain.path).path])
        logs = [identity.log(chain.path, None if write else heads), *([HeadLog(witness)] if witness else [])]
        # Published first, rows second: what others add in between must not look like something lost.
        published = [log.last() for log in logs]
        ledger = cls(chain, identity, identity.key(chain.path) if write else None, logs)
        if until is not None:
            ledger._until = ledger._place(until)
        ledger.refresh()
        if ledger._state.reserved and published[0] is None:
            raise LedgerTampered(f"head log {logs[0].path} is gone: restore it, or move it along with its ledger")
        if witness is not None and published[1] is None and witness_name(witness) in ledger._state.witnesses:
            raise LedgerTampered(f"witness {witness} held heads of this ledger and holds none now: restore it")
        for log, last in zip(logs, published, strict=True):
            check_last(last, log.path, identity.public, chain.link)
        return ledger

    def nobody_joins(self) -> None:
        """Writes a row where nobody joins, as somebody would get: published heads tell how many rows there are."""
        with self._chain.transaction():
            self.refresh()
            row = self._chain.append(join_row(self._chain.next, self._state.register.nobody, b""))
        self._replay([row])
        self._publish(*self._chain.last)

    def _admit(self, clients: Clients | None, holders: Holders | None, *, write: bool, begins: bool) -> list[LedgerRow]:
        """Finds the run's clients, and writes down who is new and who holds what. Call inside a transaction.

        **Formal guarantees**: where a run begins, it writes as many rows whether or not somebody is new in it. Heads
        are published with their places, which would else tell an outsider, to whom presence is promised hidden, that
        somebody came.
        """
        if clients is None:
            return []
        key = self._key or (self._identity.key(self.path) if self._state.register.kind == NAMES else None)
        self._members, joining, digests = self._state.register.find(clients, key)
        if not write:
            if joining is not None:
                raise LedgerError(f"ledger {self.path} does not know all of these clients: open it for writing")
            return []
        rows = []
        if joining is not None or begins:
            told = joining or self._state.register.nobody
            rows.append(self._chain.append(join_row(self._chain.next, told, digests)))
        population = self.population + (joining["count"] if joining else 0)
        if holders is None:
            if self._state.holdings.known:
                raise LedgerError(f"ledger {self.path} remembers who holds what: tell the holders of this run too")
            return rows
        assert self._key is not None
        everyone = np.arange(population) if self._members is None else self._members
        held, made, kind = self._state.holdings.check(holders, everyone, self._key, population)
        if len(held) or begins:
            rows.append(self._chain.append(hold_row(self._chain.next, held, made, kind, population)))
        return rows

    def _remember(self, witness: Path | None) -> None:
        """Writes down that a witness holds heads, once they are safe there: one that is emptied later is found out."""
        if witness is not None and witness_name(witness) not in self._state.witnesses:
            self._logs[1].sync()
            with self._chain.transaction():
                self.refresh()
                row = self._chain.append(witness_row(self._chain.next, witness))
            self._replay([row])
            self._publish(*self._chain.last)

"""The ledger: every release of a federation, who paid for it, and what it cost; written before it happens.

A round asks `affordable`, then `reserve`s (durably, before anything leaves a client), releases, and `settle`s. A
reservation that was never settled counts as spent: nobody can know what left before the process died. The ledger
belongs to a federation, not to a run: a second run over the same clients starts from what they have spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from sordino.account.ledger.clients import NAMES, Clients, join_row
from sordino.account.ledger.cohort import Cohort
from sordino.account.ledger.entry import LedgerEntry, costs_of, normal, now, reserve_row, settle_row
from sordino.account.ledger.hash_chain import HashChain, LedgerRow
from sordino.account.ledger.heads import HeadLog, check_last, require_apart, witness_name, witness_row
from sordino.account.ledger.holders import Holders, hold_row
from sordino.account.ledger.identity import LedgerIdentity, begin, refuse_remains
from sordino.account.ledger.reading import LedgerReader
from sordino.account.ledger.settlement import refuse_dearer
from sordino.errors import LedgerError, LedgerMoved, LedgerTampered
from sordino.events import Charge
from sordino.types import IntArray

_BESIDE = ("-wal", "-shm", "-journal", ".key", ".key.new")
"""Endings of the files that belong to a ledger and hold no heads."""


class Ledger(LedgerReader):
    """The durable record of one federation.

    Formal guarantees:
        After `reserve` has returned, no crash of process or machine makes the ledger show less than it reserved.
        Every error of the disk is raised by `reserve`, before anything is released.
        A settlement only ever lowers a reservation, so a machine that dies may lose it: `flush` can follow meanwhile.
        Any number of processes may write to one ledger; each sees the others' reservations before it answers.
        What was reserved stays found: rows are checked whenever they are read, and heads are signed and published
        (`account.ledger.heads`), so a ledger that was cut, rolled back or rewritten is refused when it is opened.

    Edge cases: a run's clients are 0 … n − 1 in everything it writes here, as in what it asks (`LedgerReader`).
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
            create: make the file when it is missing (needs federation and clients). A run that goes on never does.
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
                rows = ledger._admit(clients, holders, write=write)
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

    def _admit(self, clients: Clients | None, holders: Holders | None, *, write: bool) -> list[LedgerRow]:
        """Finds the run's clients, and writes down who is new and who holds what. Call inside a transaction."""
        if clients is None:
            return []
        key = self._key or (self._identity.key(self.path) if self._state.register.kind == NAMES else None)
        self._members, joining, digests = self._state.register.find(clients, key)
        if not write:
            if joining is not None:
                raise LedgerError(f"ledger {self.path} does not know all of these clients: open it for writing")
            return []
        rows = [] if joining is None else [self._chain.append(join_row(self._chain.next, joining, digests))]
        population = self.population + (joining["count"] if joining else 0)
        if holders is None:
            if self._state.holdings.known:
                raise LedgerError(f"ledger {self.path} remembers who holds what: tell the holders of this run too")
            return rows
        assert self._key is not None
        everyone = np.arange(population) if self._members is None else self._members
        told, made, kind = self._state.holdings.check(holders, everyone, self._key, population)
        if len(told):
            rows.append(self._chain.append(hold_row(self._chain.next, told, made, kind, population)))
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

    @property
    def head(self) -> str:
        """The hash of the last row, in hex, and durable: who keeps it can see that nobody rewrote the past."""
        newest = self.newest
        if self._key is not None:
            self._chain.sync()  # another process may have settled, and not be there yet
            self.flush()
        return newest

    def reserve(
        self,
        run: str,
        round_: int,
        participants: IntArray,
        charges: Sequence[Charge],
        excluded: IntArray | None = None,
        repeatable: bool = False,
        fingerprint: str = "",
        head: str | None = None,
        early_end: float = 0.0,
        adaptive: bool = False,
    ) -> int:
        """Writes down a release before it happens, and returns its number once that is safe on disk.

        Args:
            run: the run's name.
            round_: the round.
            participants: clients whose message is about to leave them.
            charges: what the release costs, in each guarantee.
            excluded: clients that could not have been selected for reasons everybody can compute; they do not pay the
                charges that fall on the `eligible`.
            repeatable: the release is a function of a seed. Reserving the same release again then returns the same
                number and charges nothing, since seeing the same bits twice tells nothing new.
            fingerprint: names seed, data, recipe and software; releases with different fingerprints are different.
            head: the ledger's head when it was asked who can pay for this; none is empty, so with "" only a release
                that was reserved before is reserved.
            early_end: the chance that coins decide when the run ends, which later runs on this ledger have to know.
            adaptive: whether the run's noise follows its releases, so that later certificates need a filter, too.

        Raises:
            LedgerMoved: the head is another one by now, so the answer may be another one, too: ask again.
            LedgerError: it could not be made durable, or it is to be played again and others are asked, or at another
                price, than when it was released, or another run's release has noise of the same name: the same noise
                must not hide both; nothing may be released.
        """
        mark, paid = self._keyed(fingerprint), normal(charges)
        with self._chain.transaction():
            self.refresh()
            entry = LedgerEntry(
                seq=self._chain.next,
                run=run,
                round_=round_,
                participants=self._cohort(participants),
                excluded=self._left_out(excluded),
                charges=paid,
                repeatable=repeatable,
                fingerprint=mark,
                early_end=early_end,
                adaptive=adaptive,
                time=now(),
                costs=costs_of(paid, self.delta),
            )
            if repeatable and (found := self._state.repeated(entry)) is not None:
                return found
            if self._state.shown(entry):
                raise _otherwise(run, round_)
            if head is not None and self.newest != head:
                raise LedgerMoved("another run was charged to this ledger just now: nothing is released; run again")
            if (other := self._state.lent(entry)) is not None:
                raise _same_noise(run, other)
            self._chain.append(reserve_row(entry, self.delta))
        self._state.reserve(entry)
        self._publish(*self._chain.last)  # not what others wrote since, which may not be durable yet
        return entry.seq

    def settle(
        self,
        reservation: int,
        charges: Sequence[Charge],
        senders: IntArray | None = None,
        digest: str = "",
        durable: bool = True,
    ) -> None:
        """Replaces a reservation by what really happened.

        Args:
            reservation: the number that `reserve` returned.
            charges: what the release really cost; empty when nothing was released.
            senders: clients whose message left them, if fewer than reserved (a client that vanished before sending
                anything pays nothing; one whose message was lost or not counted pays).
            digest: a hash of what was released. A repeated release with another digest is no repetition: the noise is
                the same and what it hides is not, so that both together show the difference, which no price covers.
            durable: False leaves it to `flush`, which another thread may do, to make it durable and publish its head.

        Raises:
            LedgerError: the release was dearer than its reservation, was settled before, does not exist, or is played
                again and comes out otherwise: it must not be shown.
        """
        realised = normal(charges)
        digest = self._keyed(digest) if realised else ""
        with self._chain.transaction(durable=False):  # `flush` makes it so
            self.refresh()
            quoted = self._state.reserved.get(reservation)
            if quoted is None:
                raise LedgerError(f"reservation {reservation} does not exist: reserve before releasing")
            sent = self._sent(quoted, senders)
            refuse_dearer(quoted.charges, realised, reservation)
            current, anew = self._state.entries[reservation], None
            if current.settled:
                if not quoted.repeatable:
                    raise LedgerError(f"reservation {reservation} was settled before: reserve every release anew")
                if current.digest == digest or not realised:
                    return
                if current.charges:
                    raise _otherwise(quoted.run, quoted.round_)
                quoted = anew = replace(quoted, seq=self._chain.next, repeatable=False, time=now())
                self._chain.append(reserve_row(anew, self.delta))
            costs = quoted.costs if realised == quoted.charges else costs_of(realised, self.delta)
            settled = replace(quoted, participants=sent, charges=realised, costs=costs, settled=True, digest=digest)
            self._chain.append(settle_row(self._chain.next, settled, everybody=sent is quoted.participants))
        if anew is not None:
            self._state.reserve(anew)
        self._state.settle(settled)
        with self._publishing:
            self._waiting = self._chain.last
        if durable or anew is not None:  # a repetition that was none is a new charge
            self.flush()

    def _sent(self, quoted: LedgerEntry, senders: IntArray | None) -> Cohort:
        """Returns who sent, which are all whom the reservation names or some of them."""
        everybody = quoted.participants
        sent = everybody if senders is None else self._cohort(senders)
        if sent is not everybody and not np.all(everybody.contains(sent.ids())):
            raise LedgerError(f"reservation {quoted.seq} is settled with clients that it did not name")
        return everybody if len(sent) == len(everybody) else sent

    def flush(self) -> None:
        """Makes durable what was settled, and publishes its head; another thread may meanwhile ask, but not write."""
        if (waiting := self._waiting) is not None:
            self._chain.sync()
            self._publish(*waiting)

    def set_aside(self, run: str, round_: int, fingerprint: str) -> AbstractContextManager[bool]:
        """Answers, inside the block, as before this repeatable release was reserved: it is about to be played again."""
        self.refresh()
        return self._state.set_aside(run, round_, self._keyed(fingerprint))

    def sign(self, message: bytes) -> str:
        """Returns a signature with the ledger's key, in hex (`keys.signed` checks it against `public_key`)."""
        return (self._key or self._identity.key(self.path)).sign(message)

    def close(self) -> None:
        """Closes the files, once what was settled is durable."""
        try:
            self.flush()
        finally:
            with self._publishing, ExitStack() as closing:
                for log in self._logs:
                    closing.callback(log.close)
                self._chain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _publish(self, seq: int, link: bytes) -> None:
        assert self._key is not None
        with self._publishing:
            for log in self._logs:
                log.publish(seq, link.hex(), self._key, self._chain.link)
            if self._waiting is not None and self._waiting[0] <= seq:
                self._waiting = None

    def _keyed(self, mark: str) -> str:
        """Returns a digest that tells marks apart, and nothing else: they may name private data."""
        if self._key is None:
            raise LedgerError(f"ledger {self.path} was opened for reading: open it for writing")
        if not mark:
            return ""
        return self._key.digest(b"sordino.mark", mark.encode()).hex()


def _otherwise(run: str, round_: int) -> LedgerError:
    """Returns the refusal of a round whose noise would be used for two different releases."""
    return LedgerError(
        f"round {round_} of run {run} was released before and comes out otherwise under the same noise, which would "
        "show the difference: nothing is released; go on with the recipe, model, machine and software that it began "
        "with, or begin a new run on this ledger"
    )


def _same_noise(run: str, other: str) -> LedgerError:
    """Returns the refusal of a run whose noise another one uses: both began before either had released anything."""
    return LedgerError(
        f"run {run} began beside run {other} with the same recipe on this ledger, so both would draw the same noise, "
        "and the difference of what they release would have none in it: nothing is released; begin this one anew, "
        "in another folder"
    )

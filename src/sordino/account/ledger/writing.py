"""A ledger that is written to: what a release may cost is reserved before it happens, and settled after it.

A round asks `affordable`, then `reserve`s (durably, before anything leaves a client), releases, and `settle`s. A
reservation that was never settled counts as spent: nobody can know what left before the process died.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np

from sordino.account.ledger.cohort import Cohort
from sordino.account.ledger.entry import LedgerEntry, RunLimit, costs_of, normal, now, reserve_row, settle_row
from sordino.account.ledger.reading import LedgerReader
from sordino.account.ledger.settlement import refuse_dearer
from sordino.errors import LedgerError, LedgerMoved
from sordino.events import Charge
from sordino.types import IntArray


class LedgerWriter(LedgerReader):
    """What a run writes to a ledger.

    Formal guarantees:
        After `reserve` has returned, no crash of process or machine makes the ledger show less than it reserved.
        Every error of the disk is raised by `reserve`, before anything is released.
        A settlement only ever lowers a reservation, so what dies may lose it: it is written with the next reservation
        or by `write`, and durable with that reservation or by `flush`.
        Any number of processes may write to one ledger; each sees the others' reservations before it answers.

    Edge cases: a run's clients are 0 … n − 1 in everything it writes here, as in what it asks (`LedgerReader`).
    """

    @property
    def head(self) -> str:
        """The hash of the last row, in hex, and durable: who keeps it can see that nobody rewrote the past."""
        if self._key is None:
            return self.newest
        self.flush()
        newest = self.newest
        self._chain.sync()  # another process may have settled, and not be there yet
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
        limit: RunLimit | None = None,
        once: bool = False,
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
            limit: the budget that the run is held to, so that nobody can change it in the certificate later.
            once: refuse a round that the run has reserved before: its noise remembers earlier rounds, and a second
                release of it would show them again.

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
                seq=self._chain.next + len(self._owed),
                run=run,
                round_=round_,
                participants=self._cohort(participants),
                excluded=self._left_out(excluded),
                charges=paid,
                repeatable=repeatable,
                fingerprint=mark,
                early_end=early_end,
                adaptive=adaptive,
                limit=limit,
                time=now(),
                costs=costs_of(paid, self.delta),
            )
            if repeatable and (found := self._state.repeated(entry)) is not None:
                return found
            if self._state.shown(entry):
                raise _otherwise(run, round_)
            if once and self._state.played(run, round_):
                raise _once_more(run, round_)
            if head is not None and self.newest != head:
                raise LedgerMoved("another run was charged to this ledger just now: nothing is released; run again")
            if (other := self._state.lent(entry)) is not None:
                raise _same_noise(run, other)
            self._append_owed()
            self._chain.append(reserve_row(entry, self.delta))
        self._written()
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
            durable: False leaves it to the next `reserve`, `write` or `flush` to write it down; it counts at once.

        Raises:
            LedgerError: the release was dearer than its reservation, was settled before, does not exist, or is played
                again and comes out otherwise: it must not be shown.
        """
        quoted = self._state.reserved.get(reservation)
        if quoted is None:
            raise LedgerError(f"reservation {reservation} does not exist: reserve before releasing")
        sent, realised = self._sent(quoted, senders), normal(charges)
        refuse_dearer(quoted.charges, realised, reservation)
        digest, current = self._keyed(digest) if realised else "", self._state.entries[reservation]
        if current.settled:
            if not quoted.repeatable:
                raise LedgerError(f"reservation {reservation} was settled before: reserve every release anew")
            if current.digest == digest or not realised:
                return
            if current.charges:
                raise _otherwise(quoted.run, quoted.round_)
            quoted, durable = self._anew(quoted), True  # a repetition that was none is a new charge
        costs = quoted.costs if realised == quoted.charges else costs_of(realised, self.delta)
        settled = replace(quoted, participants=sent, charges=realised, costs=costs, settled=True, digest=digest)
        self._state.settle(settled)
        self._owed.append((settled, sent is quoted.participants))
        if durable:
            self.flush()

    def _anew(self, quoted: LedgerEntry) -> LedgerEntry:
        """Reserves, under a number of its own, what was reserved for a release that was then not made."""
        with self._chain.transaction():
            self.refresh()
            anew = replace(quoted, seq=self._chain.next, repeatable=False, time=now())
            self._chain.append(reserve_row(anew, self.delta))
        self._state.reserve(anew)
        return anew

    def _sent(self, quoted: LedgerEntry, senders: IntArray | None) -> Cohort:
        """Returns who sent, which are all whom the reservation names or some of them."""
        everybody = quoted.participants
        sent = everybody if senders is None else self._cohort(senders)
        if sent is not everybody and not np.all(everybody.contains(sent.ids())):
            raise LedgerError(f"reservation {quoted.seq} is settled with clients that it did not name")
        return everybody if len(sent) == len(everybody) else sent

    def write(self) -> None:
        """Writes down what was settled, so that the end of this process does not lose it; the machine's end still may.

        Call it before anybody is told what was released: a repetition that comes out otherwise is then found.
        """
        if self._owed:
            with self._chain.transaction(durable=False):
                self.refresh()
                self._append_owed()
            self._written()

    def flush(self) -> None:
        """Makes durable what was settled, and publishes its head; another thread may meanwhile ask, but not write."""
        self.write()
        if (waiting := self._waiting) is not None:
            self._chain.sync()
            self._publish(*waiting)

    def _append_owed(self) -> None:
        """Appends settlements that are not written yet. Call inside a transaction, and `_written` after it."""
        for settled, everybody in self._owed:
            self._chain.append(settle_row(self._chain.next, settled, everybody))

    def _written(self) -> None:
        """Remembers that settlements are written, and wait to be published."""
        if self._owed:
            self._owed.clear()
            with self._publishing:
                self._waiting = self._chain.last

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


def _once_more(run: str, round_: int) -> LedgerError:
    """Returns the refusal of a round that somebody else has played, of a run whose noise remembers."""
    return LedgerError(
        f"round {round_} of run {run} was played from a copy of its folder, or by another process, and its noise "
        "remembers earlier rounds, which a second one would show again: nothing is released; go on with one folder, "
        "which leaves out what the other has played"
    )


def _same_noise(run: str, other: str) -> LedgerError:
    """Returns the refusal of a run whose noise another one uses: both began before either had released anything."""
    return LedgerError(
        f"run {run} began beside run {other} with the same recipe on this ledger, so both would draw the same noise, "
        "and the difference of what they release would have none in it: nothing is released; begin this one anew, "
        "in another folder"
    )

"""The ledger: every release of a federation, who paid for it, and what it cost; written before it happens.

A round asks `affordable`, then `reserve`s (durably, before anything leaves a client), releases, and `settle`s. A
reservation that was never settled counts as spent: nobody can know what left before the process died. The ledger
belongs to a federation, not to a run: a second run over the same clients starts from what they have spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np

from sordino.account.accountants.filter import Filter
from sordino.account.ledger.book import Book
from sordino.account.ledger.budget import Budget, Headroom
from sordino.account.ledger.clients import NAMES, Clients, join_row
from sordino.account.ledger.cohort import Cohort
from sordino.account.ledger.coverage import implies
from sordino.account.ledger.entry import LedgerEntry, normal, reserve_row, settle_row
from sordino.account.ledger.hash_chain import HashChain, LedgerRow
from sordino.account.ledger.heads import HeadLog, check_all, check_last
from sordino.account.ledger.holders import Holders, hold_row
from sordino.account.ledger.identity import LedgerIdentity, begin, refuse_remains
from sordino.account.ledger.keys import LedgerKey
from sordino.account.ledger.recheck import recheck
from sordino.account.ledger.settlement import refuse_dearer
from sordino.account.ledger.spending import clash, spent_by_runs, spent_words
from sordino.account.ledger.state import LedgerState, readable
from sordino.errors import LedgerError, LedgerMoved, LedgerTampered
from sordino.events import Charge, ComposedDpEvent, DpEvent, Guarantee
from sordino.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Affordable:
    """Who can pay for the next release, and for which kind of reason the others cannot.

    Attributes:
        allowed: clients that may be selected.
        barred: clients left out for a reason that everybody can compute (all charges so far fell on everyone eligible).
            They are the `excluded` of the reservation and do not pay for amplification.
        capped: clients left out because of their *own* participations. Their absence depends on secret coins, so they
            keep paying what the eligible pay (docs/accounting.md, "Leaving clients out").
    """

    allowed: BoolArray
    barred: BoolArray
    capped: BoolArray


class Ledger:
    """The durable record of one federation.

    Formal guarantees:
        After `reserve` has returned, no crash of process or machine makes the ledger show less than it reserved.
        Every error of the disk is raised by `reserve`, before anything is released.
        A settlement only ever lowers a reservation, so a machine that dies may lose it: `flush` can follow meanwhile.
        Any number of processes may write to one ledger; each sees the others' reservations before it answers.
        What was reserved stays found: rows are checked whenever they are read, and heads are signed and published
        (`account.ledger.heads`), so a ledger that was cut, rolled back or rewritten is refused when it is opened.

    Edge cases: a run's clients are 0 … n − 1 in everything it asks or writes here (`reserve`, `settle`, `affordable`,
    `Budget.clients`). What is read back (`entries`, books, `participations`, `population`) counts all clients that the
    ledger ever saw, by their numbers in it; `members` gives the number of each client of the run.
    """

    def __init__(
        self, chain: HashChain, identity: LedgerIdentity, key: LedgerKey | None, logs: Sequence[HeadLog]
    ) -> None:
        self._chain = chain
        self._identity = identity
        self._key = key
        self._logs = list(logs)
        self._state = LedgerState()
        self._headroom = Headroom()
        self._until: int | None = None
        self._waiting: tuple[int, bytes] | None = None
        """The head of a settlement that waits to become durable and published."""
        self._publishing = Lock()
        self._members: IntArray | None = None
        self._outside: tuple[int, IntArray] = (0, np.empty(0, np.int64))

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
        if create and (federation is None or clients is None):
            raise LedgerError("a new ledger needs a federation and at least 1 client")
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
                ledger._publish(*chain.head())
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
        logs = [identity.log(chain.path, None if write else heads), *([HeadLog(witness)] if witness else [])]
        # Published first, rows second: what others add in between must not look like something lost.
        published = [log.last() for log in logs]
        ledger = cls(chain, identity, identity.key(chain.path) if write else None, logs)
        if until is not None:
            ledger._until = ledger._place(until)
        ledger.refresh()
        if ledger._state.reserved and published[0] is None:
            raise LedgerTampered(f"head log {logs[0].path} is gone: restore it, or move it along with its ledger")
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
        rows = [] if joining is None else [self._chain.append(lambda seq: join_row(seq, joining, digests))]
        population = self.population + (joining["count"] if joining else 0)
        if holders is None:
            if self._state.holdings.known:
                raise LedgerError(f"ledger {self.path} remembers who holds what: tell the holders of this run too")
            return rows
        assert self._key is not None
        everyone = np.arange(population) if self._members is None else self._members
        told, made, kind = self._state.holdings.check(holders, everyone, self._key, population)
        if len(told):
            rows.append(self._chain.append(lambda seq: hold_row(seq, told, made, kind, population)))
        return rows

    @property
    def path(self) -> Path:
        return self._chain.path

    @property
    def federation(self) -> str:
        return self._identity.federation

    @property
    def delta(self) -> float:
        """The δ at which the cost of single releases is written down."""
        return self._identity.delta

    @property
    def population(self) -> int:
        """How many clients the ledger ever saw."""
        return self._state.population

    @property
    def members(self) -> IntArray:
        """The number in the ledger of each client of this run."""
        return np.arange(self.population) if self._members is None else self._members.copy()

    @property
    def public_key(self) -> str:
        """The key under which published heads and whatever else the ledger signed verify, in hex."""
        return self._identity.public

    @property
    def head(self) -> str:
        """The hash of the last row, in hex, durable and published: nobody can rewrite the past unnoticed."""
        self.flush()
        return self.newest

    @property
    def newest(self) -> str:
        """The hash of the last row, in hex, which a machine that dies may still lose: to see whether rows came."""
        return self._chain.head()[1].hex()

    @property
    def entries(self) -> list[LedgerEntry]:
        """All releases, in order."""
        return list(self._state.entries.values())

    @property
    def guarantees(self) -> list[Guarantee]:
        """All kinds of promise that were ever charged."""
        return self._state.guarantees

    @property
    def participations(self) -> IntArray:
        """How many times each client's message left it (all clients of the ledger, by number)."""
        return self._state.participations.copy()

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

        Raises:
            LedgerMoved: the head is another one by now, so the answer may be another one, too: ask again.
            LedgerError: it could not be made durable, or it is to be played again and others are asked, or at another
                price, than when it was released: the same noise must not hide both; nothing may be released.
        """
        mark, paid = self._keyed(fingerprint), normal(charges)
        with self._chain.transaction():
            self.refresh()
            entry = LedgerEntry(
                seq=-1,
                run=run,
                round_=round_,
                participants=self._cohort(participants),
                excluded=self._left_out(excluded),
                charges=paid,
                repeatable=repeatable,
                fingerprint=mark,
            )
            if repeatable and (found := self._state.repeated(entry)) is not None:
                return found
            if self._state.shown(entry):
                raise _otherwise(run, round_)
            if head is not None and self.newest != head:
                raise LedgerMoved("another run was charged to this ledger just now: nothing is released; run again")
            row = self._chain.append(lambda seq: reserve_row(seq, entry, self.delta))
        self._replay([row])
        self._publish(*self._chain.head())
        return row.seq

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
            sent = None if senders is None else self._cohort(senders)
            quoted = self._state.reserved.get(reservation)
            if quoted is None:
                raise LedgerError(f"reservation {reservation} does not exist: reserve before releasing")
            if sent is not None and not np.all(quoted.participants.contains(sent.ids())):
                raise LedgerError(f"reservation {reservation} is settled with clients that it did not name")
            refuse_dearer(quoted.charges, realised, reservation)
            current, rows = self._state.entries[reservation], []
            if current.settled:
                if not quoted.repeatable:
                    raise LedgerError(f"reservation {reservation} was settled before: reserve every release anew")
                if current.digest == digest or not realised:
                    return
                if current.charges:
                    raise _otherwise(quoted.run, quoted.round_)
                again = replace(quoted, repeatable=False)
                rows.append(self._chain.append(lambda seq: reserve_row(seq, again, self.delta)))
                quoted = replace(again, seq=rows[0].seq)
            rows.append(self._chain.append(lambda seq: settle_row(seq, quoted, realised, sent, digest, self.delta)))
        self._replay(rows)
        with self._publishing:
            self._waiting = self._chain.head()
        if durable or len(rows) > 1:  # a repetition that was none is a new charge
            self.flush()

    def flush(self) -> None:
        """Makes durable what was settled, and publishes its head; another thread may meanwhile ask, but not write."""
        if (waiting := self._waiting) is not None:
            self._chain.sync()
            self._publish(*waiting)

    def set_aside(self, run: str, round_: int, fingerprint: str) -> AbstractContextManager[bool]:
        """Answers, inside the block, as before this repeatable release was reserved: it is about to be played again."""
        self.refresh()
        return self._state.set_aside(run, round_, self._keyed(fingerprint))

    def affordable(
        self,
        charges: Sequence[Charge],
        budget: Budget,
        accountant: str = "pld",
        within: Iterable[Guarantee] | None = None,
        filters: Mapping[Guarantee, Filter] | None = None,
    ) -> Affordable:
        """Returns which of the run's clients could pay these charges on top of everything spent or reserved so far.

        Ask before every release, one before the first round (an opening release, round 0) included.

        Args:
            charges: the next release.
            budget: the limits.
            accountant: who prices.
            within: the guarantees that the budget binds; None binds all that are charged. A promise of earlier
                releases that follows from one of these is bound with it: else a run under a stronger adjacency would
                begin a budget of its own, and spend the older promise's a second time.
            filters: for guarantees whose noise follows released values, the filter that decides instead.
        """
        self.refresh()
        count = self.population if self._members is None else len(self._members)
        limits, barred, capped = budget.limits(count), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        bound = None if within is None else set(within)
        implied = self._implied(charges, bound)
        bound = bound and bound | {charge.guarantee for charge in implied}
        for guarantee, event, secret in self._totals([*charges, *implied]):
            if bound is not None and guarantee not in bound:
                continue
            book = self.book(guarantee)
            if (chosen := (filters or {}).get(guarantee)) is not None:
                over = ~book.admitted(chosen, limits, event, self._members)
            else:
                over = ~book.affords(event, limits, budget.delta, accountant, self._headroom, self._members)
            (capped if secret else barred)[over] = True
        return Affordable(~(barred | capped), barred, capped & ~barred)

    def limits(self, budget: Budget) -> FloatArray:
        """Returns the ε of every client of the ledger; those of other runs have the federation's."""
        limits = np.full(self.population, budget.epsilon)
        limits[self.members] = budget.limits(len(self.members))
        return limits

    def book(self, guarantee: Guarantee) -> Book:
        """Returns the book of one guarantee: everything charged to it, or to a promise from which it follows."""
        return self._state.book(guarantee)

    def unpromised(self, guarantee: Guarantee) -> tuple[BoolArray, str]:
        """Returns which clients took part in releases that promised nothing of this kind, and in words which runs."""
        return self._state.unpromised(guarantee)

    def spent_by_runs(self, guarantee: Guarantee, accountant: str = "pld") -> list[tuple[str, float]]:
        """Returns what each run so far took from the run's clients: its name, and ε of the one who paid it most."""
        everyone = (self.entries, guarantee, self.population, self._members, self.delta, accountant)
        return spent_by_runs(*everyone)

    def spent_words(self, guarantee: Guarantee, run: str = "", epsilon: float | None = None) -> str:
        """Returns a sentence that names the earlier runs (all but `run`) that have spent; empty when none has."""
        spent = [(name, cost) for name, cost in self.spent_by_runs(guarantee) if name != run]
        return spent_words(spent, guarantee, epsilon)

    def clash(self, wanted: Iterable[Guarantee], run: str = "") -> list[str]:
        """Returns a warning for each promise that this ledger's earlier runs and one of `wanted` make infinite."""
        return clash([entry for entry in self.entries if entry.run != run], wanted)

    def number(self, client: str) -> int:
        """Returns the number in the ledger of the client of this name (which needs the ledger's key to be read)."""
        named = self._state.register.kind == NAMES
        return self._state.register.number(client, self._key or (self._identity.key(self.path) if named else None))

    def must_contain(self, head: str) -> None:
        """Refuses a ledger without a head (in hex) that somebody kept: a checkpoint, a certificate, a witness.

        Raises:
            LedgerTampered: the ledger was rolled back, cut, rewritten or replaced since.
        """
        self._place(head)

    def sign(self, message: bytes) -> str:
        """Returns a signature with the ledger's key, in hex (`keys.signed` checks it against `public_key`)."""
        return (self._key or self._identity.key(self.path)).sign(message)

    def verify(self) -> int:
        """Checks the chain, recomputes every cost from its events, finds every published head; returns how many.

        Raises:
            LedgerTampered: naming the first row or head that does not hold.
        """
        lines = [log.lines() for log in self._logs]
        self.refresh()
        found = self._chain.verify()
        recheck(self.path, [row for row, _ in found], self.delta)
        links = {row.seq: link for row, link in found}
        for log, told in zip(self._logs, lines, strict=True):
            check_all(told, log.path, self.public_key, links.get)
        return len(lines[0])

    def refresh(self) -> None:
        """Reads what other processes have written since, and looks that nothing read before is gone."""
        self._replay(self._chain.news())

    def close(self) -> None:
        """Closes the files, once what was settled is durable."""
        try:
            self.flush()
        finally:
            with self._publishing:
                self._chain.close()
                for log in self._logs:
                    log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _implied(self, charges: Sequence[Charge], bound: set[Guarantee] | None) -> list[Charge]:
        """Returns what a release costs under older promises that it is not charged to and that follow from its own."""
        given = {charge.guarantee for charge in charges}
        told = []
        for older in self.guarantees:
            by = next((g for g in sorted(given, key=str) if implies(g, older)), None) if older not in given else None
            if by is not None and (bound is None or by in bound):
                told += [Charge(older, charge.event, charge.payers) for charge in charges if charge.guarantee == by]
        return told

    def _totals(self, charges: Sequence[Charge]) -> Iterator[tuple[Guarantee, DpEvent, bool]]:
        """Yields each guarantee with all of its charges as one event, and whether coins decide who can pay it."""
        for guarantee in dict.fromkeys(charge.guarantee for charge in charges):
            mine = [charge for charge in normal(charges) if charge.guarantee == guarantee]
            event = mine[0].event if len(mine) == 1 else ComposedDpEvent(tuple(charge.event for charge in mine))
            by_coins = any(charge.payers == "participants" for charge in mine)
            yield guarantee, event, by_coins or self.book(guarantee).by_participation

    def _replay(self, rows: Iterable[LedgerRow]) -> None:
        for row in rows:
            if self._until is None or row.seq <= self._until:
                with readable(self.path, row.seq):
                    self._state.replay(row)

    def _publish(self, seq: int, link: bytes) -> None:
        assert self._key is not None
        with self._publishing:
            for log in self._logs:
                log.publish(seq, link.hex(), self._key, self._chain.link)
            if self._waiting is not None and self._waiting[0] <= seq:
                self._waiting = None

    def _place(self, head: str) -> int:
        place = self._chain.place(head)
        if place is None:
            raise LedgerTampered(
                f"ledger {self.path} never had the head {head[:16]}…: it was rolled back, cut, rewritten or is "
                "another's: restore its newest copy"
            )
        return place

    def _cohort(self, clients: IntArray) -> Cohort:
        """Returns clients of the run as clients of the ledger."""
        if self._members is None:
            return Cohort.of(clients, self.population)
        ids = np.asarray(clients, dtype=np.int64)
        wrong = ids[(ids < 0) | (ids >= len(self._members))]
        if len(wrong):
            raise LedgerError(f"client {wrong[0]} is outside the population 0 … {len(self._members) - 1}")
        return Cohort.of(self._members[ids], self.population)

    def _left_out(self, excluded: IntArray | None) -> Cohort:
        """Returns whom a charge on the eligible leaves out: those excluded, and all who are not of this run."""
        own = self._cohort(np.empty(0, np.int64) if excluded is None else excluded)
        if self._members is None or len(self._members) == self.population:
            return own
        if self._outside[0] != self.population:
            outside = np.ones(self.population, np.bool_)
            outside[self._members] = False
            self._outside = (self.population, np.flatnonzero(outside).astype(np.int64))
        return Cohort.of(np.concatenate([own.ids(), self._outside[1]]), self.population)

    def _keyed(self, mark: str) -> str:
        """Returns a digest that tells marks apart, and nothing else: they may name private data."""
        if self._key is None:
            raise LedgerError(f"ledger {self.path} was opened for reading: open it for writing")
        return self._key.digest(b"sordino.mark", mark.encode()).hex()


def _otherwise(run: str, round_: int) -> LedgerError:
    """Returns the refusal of a round whose noise would be used for two different releases."""
    return LedgerError(
        f"round {round_} of run {run} was released before and comes out otherwise under the same noise, which would "
        "show the difference: nothing is released; go on with the recipe, model, machine and software that it began "
        "with, or begin a new run on this ledger"
    )

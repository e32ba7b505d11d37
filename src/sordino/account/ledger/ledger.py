"""The ledger: every release of a federation, who paid for it, and what it cost; written before it happens.

A round asks `affordable`, then `reserve`s (durably, before anything leaves a client), releases, and `settle`s. A
reservation that was never settled counts as spent: nobody can know what left before the process died. The ledger
belongs to a federation, not to a run: a second run over the same clients starts from what they have spent.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from sordino.account.accountants.filter import Filter
from sordino.account.ledger.book import Book
from sordino.account.ledger.budget import Budget, Headroom
from sordino.account.ledger.cohort import Cohort
from sordino.account.ledger.entry import Entry, canonical, charge_of, costs_of, normal, now, reserve_row, settle_row
from sordino.account.ledger.hash_chain import Store
from sordino.account.ledger.settlement import refuse_dearer
from sordino.account.ledger.state import State
from sordino.errors import AccountingError, LedgerError, LedgerTampered
from sordino.events import Charge, ComposedDpEvent, DpEvent, Guarantee
from sordino.types import BoolArray, IntArray


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
        Any number of processes may write to one ledger; each sees the others' reservations before it answers.

    Edge cases: client ids are 0 … population − 1; a federation's name and population are fixed when it is created.
    """

    def __init__(self, store: Store, federation: str, population: int, delta: float) -> None:
        self._store = store
        self.federation = federation
        self.population = population
        self.delta = delta
        self._state = State(population)
        self._headroom = Headroom()
        self._until: int | None = None

    @classmethod
    def open(
        cls,
        path: Path | str,
        federation: str | None = None,
        population: int | None = None,
        *,
        create: bool = False,
        write: bool = True,
        delta: float = 1e-5,
        until: str | None = None,
    ) -> Ledger:
        """Opens a ledger, or with `create` starts one.

        Args:
            path: the file.
            federation: whose books these are; None reads any.
            population: how many clients the federation has; None takes what the ledger says.
            create: make the file when it is missing (needs federation and population).
            write: False opens for reading only.
            delta: the δ at which the cost of single releases is written down.
            until: the head (in hex) of an earlier state to read, for instance a certificate's.

        Raises:
            LedgerError: another federation's ledger, another population, a newer format, or a file that cannot be used.
        """
        path = Path(path)
        if create and (federation is None or population is None or population < 1):
            raise LedgerError("a new ledger needs a federation and a population of at least 1 client")
        body = {"federation": federation, "population": population, "delta": delta, "time": now()}
        store = Store.open(path, first=canonical(body) if create else None, write=write)
        try:
            ledger = cls(store, *_identity(store))
            ledger._require(federation, population)
            if until is not None:
                ledger._until = store.place(until)
                if ledger._until is None:
                    raise LedgerTampered(
                        f"ledger {path} never had the head {until[:16]}…: it was rewritten or is another's"
                    )
            ledger.refresh()
        except BaseException:
            store.close()
            raise
        return ledger

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def head(self) -> str:
        """The hash of the last row, in hex: publish it, and nobody can rewrite the past unnoticed."""
        return self._store.head()[1].hex()

    @property
    def entries(self) -> list[Entry]:
        """All releases, in order."""
        return list(self._state.entries.values())

    @property
    def guarantees(self) -> list[Guarantee]:
        """All kinds of promise that were ever charged."""
        return self._state.guarantees

    @property
    def participations(self) -> IntArray:
        """How many times each client's message left it."""
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

        Raises:
            LedgerError: it could not be made durable; nothing may be released.
        """
        entry = Entry(
            seq=-1,
            run=run,
            round_=round_,
            participants=Cohort.of(participants, self.population),
            excluded=Cohort.of(np.empty(0, np.int64) if excluded is None else excluded, self.population),
            charges=normal(charges),
            repeatable=repeatable,
            fingerprint=fingerprint,
        )
        with self._store.transaction():
            self.refresh()
            if repeatable and (found := self._state.repeated(entry)) is not None:
                return found
            row = self._store.append(lambda seq: reserve_row(seq, entry, self.delta))
        self._state.replay(row)
        return row.seq

    def settle(
        self,
        reservation: int,
        charges: Sequence[Charge],
        senders: IntArray | None = None,
        digest: str = "",
    ) -> None:
        """Replaces a reservation by what really happened.

        Args:
            reservation: the number that `reserve` returned.
            charges: what the release really cost; empty when nothing was released.
            senders: clients whose message left them, if fewer than reserved (a client that vanished before sending
                anything pays nothing; one whose message was lost or not counted pays).
            digest: a hash of what was released. A repeated release with another digest was not a repetition after all,
                and is charged again.

        Raises:
            LedgerError: the release was dearer than its reservation, was settled before, or does not exist.
        """
        realised = normal(charges)
        sent = None if senders is None else Cohort.of(senders, self.population)
        with self._store.transaction():
            self.refresh()
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
                if current.digest == digest:
                    return
                rows.append(
                    self._store.append(lambda seq: reserve_row(seq, replace(quoted, repeatable=False), self.delta))
                )
                reservation = rows[0].seq
            rows.append(self._store.append(lambda seq: settle_row(seq, reservation, realised, sent, digest)))
        for row in rows:
            self._state.replay(row)

    def set_aside(self, run: str, round_: int, fingerprint: str) -> AbstractContextManager[None]:
        """Answers, inside the block, as before this repeatable release was reserved: it is about to be played again."""
        self.refresh()
        return self._state.set_aside(run, round_, fingerprint)

    def affordable(
        self,
        charges: Sequence[Charge],
        budget: Budget,
        accountant: str = "pld",
        within: Iterable[Guarantee] | None = None,
        filters: Mapping[Guarantee, Filter] | None = None,
    ) -> Affordable:
        """Returns who could pay these charges on top of everything spent or reserved so far.

        Args:
            charges: the next release.
            budget: the limits.
            accountant: who prices.
            within: the guarantees that the budget binds; None binds all that are charged.
            filters: for guarantees whose noise follows released values, the filter that decides instead.
        """
        self.refresh()
        limits = budget.limits(self.population)
        barred, capped = np.zeros(self.population, np.bool_), np.zeros(self.population, np.bool_)
        bound = None if within is None else set(within)
        for guarantee, event, secret in self._totals(charges):
            if bound is not None and guarantee not in bound:
                continue
            book = self.book(guarantee)
            if (chosen := (filters or {}).get(guarantee)) is not None:
                over = ~book.admitted(chosen, limits, event)
            else:
                over = ~book.affords(event, limits, budget.delta, accountant, self._headroom)
            (capped if secret else barred)[over] = True
        return Affordable(~(barred | capped), barred, capped & ~barred)

    def book(self, guarantee: Guarantee) -> Book:
        """Returns the book of one guarantee: everything charged to it, or to a promise from which it follows."""
        return self._state.book(guarantee)

    def unpromised(self, guarantee: Guarantee) -> tuple[BoolArray, str]:
        """Returns which clients took part in releases that promised nothing of this kind, and in words which runs."""
        return self._state.unpromised(guarantee)

    def verify(self) -> None:
        """Checks the chain, and recomputes every cost that the ledger wrote down from its events.

        Raises:
            LedgerTampered: naming the first row that does not hold.
        """
        self._store.verify()
        for row in self._store.rows():
            if row.kind != "reserve":
                continue
            body = json.loads(row.body)
            found = costs_of([charge_of(record) for record in body["charges"]], body["delta"])
            if not all(_agree(*pair) for pair in zip(found, body["costs"], strict=True)):
                raise LedgerTampered(
                    f"ledger {self.path}: row {row.seq} states ε {body['costs']}, its events give {found}"
                )

    def refresh(self) -> None:
        """Reads what other processes have written since."""
        for row in self._store.rows(self._state.seen, self._until):
            with _readable(self.path, row.seq):
                self._state.replay(row)

    def close(self) -> None:
        """Closes the file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _totals(self, charges: Sequence[Charge]) -> Iterator[tuple[Guarantee, DpEvent, bool]]:
        """Yields each guarantee with all of its charges as one event, and whether coins decide who can pay it."""
        for guarantee in dict.fromkeys(charge.guarantee for charge in charges):
            mine = [charge for charge in normal(charges) if charge.guarantee == guarantee]
            event = mine[0].event if len(mine) == 1 else ComposedDpEvent(tuple(charge.event for charge in mine))
            by_coins = any(charge.payers == "participants" for charge in mine)
            yield guarantee, event, by_coins or self.book(guarantee).by_participation

    def _require(self, federation: str | None, population: int | None) -> None:
        if federation is not None and federation != self.federation:
            raise LedgerError(
                f"ledger {self.path} belongs to federation {self.federation!r}, not {federation!r}: name its own ledger"
            )
        if population is not None and population != self.population:
            raise LedgerError(
                f"ledger {self.path} counts {self.population} clients, not {population}: start a new ledger for them"
            )


def _identity(store: Store) -> tuple[str, int, float]:
    rows = store.rows(-1, until=0)
    if not rows or rows[0].kind != "open":
        raise LedgerTampered(f"ledger {store.path} has lost its first row: restore it from a copy")
    with _readable(store.path, 0):
        body = json.loads(rows[0].body)
        return str(body["federation"]), int(body["population"]), float(body["delta"])


@contextmanager
def _readable(path: Path, seq: int) -> Iterator[None]:
    """Whatever goes wrong while a row is read back, somebody wrote it who was not the ledger."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, zlib.error, LedgerError, AccountingError) as error:
        raise LedgerTampered(f"ledger {path}: row {seq} cannot be read ({error}): restore it from a copy") from error


def _agree(found: float | None, stated: float | None) -> bool:
    if found is None or stated is None:
        return found is stated
    return abs(found - stated) <= 1e-6 * max(1.0, stated)

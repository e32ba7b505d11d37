"""What the rows of a ledger add up to, kept in memory: releases, books, participations."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sordino.account.ledger.book import Book
from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.clients import ClientRegister
from sordino.account.ledger.coverage import payments
from sordino.account.ledger.entry import LedgerEntry, read_reserve, read_settle
from sordino.account.ledger.holders import Holdings
from sordino.errors import AccountingError, LedgerError, LedgerTampered
from sordino.events import Guarantee
from sordino.types import BoolArray


class LedgerState:
    """Replays rows in order. The ledger owns it and decides what may be written."""

    def __init__(self) -> None:
        self.register = ClientRegister()
        self.holdings = Holdings()
        self.witnesses: set[str] = set()
        """Digests of the names of witnesses that have held heads."""
        self.entries: dict[int, LedgerEntry] = {}
        """Releases as they count: settled ones as they really were."""
        self.reserved: dict[int, LedgerEntry] = {}
        """The same releases as they were reserved."""
        self.participations = np.zeros(0, np.int64)
        self.rounds = 0
        """Releases of rounds, those before the first round not counted."""
        self._by_run: dict[str, dict[int, LedgerEntry]] = {}
        self._by_round: dict[tuple[str, int], list[int]] = {}
        self._by_noise: dict[tuple[str, int], list[int]] = {}
        self._charged: dict[Guarantee, None] = {}
        self._books: dict[Guarantee, Book] = {}

    @property
    def population(self) -> int:
        """How many clients the ledger ever saw."""
        return self.register.population

    @property
    def guarantees(self) -> list[Guarantee]:
        """All kinds of promise that were ever charged, in order."""
        return list(self._charged)

    def replay(self, row: LedgerRow) -> None:
        """Takes one more row into account."""
        match row.kind:
            case "reserve":
                self.reserve(read_reserve(row, self.population))
            case "settle":
                body = json.loads(row.body)
                self.settle(read_settle(row, body, self.reserved[body["reservation"]], self.population))
            case "join":
                self.register.replay(row)
                self._grow()
            case "hold":
                self.holdings.replay(row, self.population)
            case "witness":
                self.witnesses.add(json.loads(row.body)["file"])
            case "open" if row.seq == 0:
                pass
            case _:
                raise LedgerError(f"no ledger writes a row of kind {row.kind!r}")

    def reserve(self, entry: LedgerEntry) -> None:
        """Takes a release into account that was reserved."""
        self.reserved[entry.seq] = entry
        self._by_round.setdefault((entry.run, entry.round_), []).append(entry.seq)
        if entry.repeatable and entry.fingerprint:
            self._by_noise.setdefault((entry.fingerprint, entry.round_), []).append(entry.seq)
        self._enter(entry)

    def settle(self, realised: LedgerEntry) -> None:
        """Puts a release as it really was in its reservation's place."""
        quoted = self.entries[realised.seq]
        if quoted.settled:
            raise LedgerError(f"reservation {realised.seq} is settled twice")
        if realised.participants is quoted.participants and realised.charges == quoted.charges:
            self._keep(realised)  # the same clients pay the same
            return
        self._withdraw(quoted)
        self._enter(realised)

    def repeated(self, entry: LedgerEntry) -> int | None:
        """Returns the reservation of the very same repeatable release, if there is one."""
        for seq in self._by_round.get((entry.run, entry.round_), []):
            if self.reserved[seq].repeatable and self.reserved[seq].same_release(entry):
                return seq
        return None

    def shown(self, entry: LedgerEntry) -> bool:
        """Returns whether a release with the same name of its noise (run, round, fingerprint) has been made already."""
        seqs = self._by_round.get((entry.run, entry.round_), []) if entry.repeatable else []
        made = [self.entries[seq] for seq in seqs if self.reserved[seq].fingerprint == entry.fingerprint]
        return any(one.repeatable and one.settled and one.charges for one in made)

    def played(self, run: str, round_: int) -> bool:
        """Returns whether a run has reserved this round."""
        return bool(self._by_round.get((run, round_)))

    def lent(self, entry: LedgerEntry) -> str | None:
        """Returns another run that made, or may be about to make, a release with the same name of its noise, if any."""
        seqs = self._by_noise.get((entry.fingerprint, entry.round_), []) if entry.repeatable else []
        made = [self.entries[seq] for seq in seqs if self.reserved[seq].run != entry.run]
        return next((one.run for one in made if one.charges or not one.settled), None)

    @contextmanager
    def set_aside(self, run: str, round_: int, fingerprint: str) -> Iterator[bool]:
        """Forgets, inside the block, what a repeatable release about to be played again did not find the first time.

        That is the run's own releases from this round on, and whatever other runs were charged meanwhile: who may take
        part is then decided as it was. The block is told whether anything was set aside; only the very same release may
        follow from such a decision, which charges nothing.
        """
        again = list[int]()
        while seqs := self._by_round.get((run, round_)):
            repeats = (self.reserved[seq] for seq in seqs)
            again += [entry.seq for entry in repeats if entry.repeatable and entry.fingerprint == fingerprint]
            round_ += 1
        if not again:
            yield False
            return
        others = [seq for seq, entry in self.entries.items() if seq > min(again) and entry.run != run]
        aside = [self.entries.pop(seq) for seq in again + others]
        for entry in aside:
            del self._by_run[entry.run][entry.seq]
            self._withdraw(entry)
        try:
            yield True
        finally:
            for entry in aside:
                self._enter(entry)
            self.entries = dict(sorted(self.entries.items()))

    def beside(self, run: str) -> list[LedgerEntry]:
        """Returns the releases of all other runs, one run after the other: however long this one is, at no cost."""
        return [entry for other, mine in self._by_run.items() if other != run for entry in mine.values()]

    def of(self, run: str) -> list[LedgerEntry]:
        """Returns the releases of one run."""
        return list(self._by_run.get(run, {}).values())

    def book(self, guarantee: Guarantee) -> Book:
        """Returns the book of one guarantee: everything charged to it, or to a promise from which it follows."""
        if guarantee not in self._books:
            self._books[guarantee] = Book(guarantee, self.population)
            for entry in self.entries.values():
                self._pay(self._books[guarantee], entry)
        return self._books[guarantee]

    def unpromised(self, guarantee: Guarantee) -> tuple[BoolArray, str]:
        """Returns which clients took part in releases that promised nothing of this kind, and which runs made them."""
        clients, runs = np.zeros(self.population, np.bool_), dict[str, None]()
        for entry in self.entries.values():
            if payments(entry, guarantee) is None:
                clients[entry.participants.ids()] = True
                runs[entry.run] = None
        words = f"promised nothing to a {guarantee.unit} against the {guarantee.observer} ({guarantee.adjacency})"
        return clients, f"run {', '.join(runs)} {words}" if runs else ""

    def _grow(self) -> None:
        more = np.zeros(self.population - len(self.participations), np.int64)
        self.participations = np.concatenate([self.participations, more])
        for book in self._books.values():
            book.grow(self.population)

    def _keep(self, entry: LedgerEntry) -> None:
        self.entries[entry.seq] = self._by_run.setdefault(entry.run, {})[entry.seq] = entry

    def _enter(self, entry: LedgerEntry) -> None:
        self._keep(entry)
        self.rounds += entry.round_ > 0
        self._charged |= dict.fromkeys(charge.guarantee for charge in entry.charges)
        for book in self._books.values():
            self._pay(book, entry)
        if entry.charges:
            self.participations[entry.participants.ids()] += 1

    def _withdraw(self, entry: LedgerEntry) -> None:
        self.rounds -= entry.round_ > 0
        for book in self._books.values():
            book.remove(entry.seq)
        if entry.charges:
            self.participations[entry.participants.ids()] -= 1

    @staticmethod
    def _pay(book: Book, entry: LedgerEntry) -> None:
        for payment in payments(entry, book.guarantee) or []:
            book.add(entry.seq, payment)


@contextmanager
def readable(path: Path, seq: int) -> Iterator[None]:
    """Whatever goes wrong while a row is read back, somebody wrote it who was not the ledger."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, zlib.error, LedgerError, AccountingError) as error:
        raise LedgerTampered(f"ledger {path}: row {seq} cannot be read ({error}): restore it from a copy") from error

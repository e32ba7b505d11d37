"""A ledger as it is read: what was released, who paid for it, and who could pay for more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np

from sordino.account.accountants.filter import Filter
from sordino.account.ledger.book import Book
from sordino.account.ledger.budget import Budget, Headroom
from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.clients import NAMES
from sordino.account.ledger.cohort import Cohort
from sordino.account.ledger.coverage import source
from sordino.account.ledger.entry import LedgerEntry, normal
from sordino.account.ledger.hash_chain import HashChain
from sordino.account.ledger.heads import HeadLog, check_all
from sordino.account.ledger.identity import LedgerIdentity
from sordino.account.ledger.keys import LedgerKey
from sordino.account.ledger.recheck import recheck
from sordino.account.ledger.spending import clash, spent_by_runs, spent_words
from sordino.account.ledger.state import LedgerState, readable
from sordino.errors import LedgerError, LedgerTampered
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


class LedgerReader:
    """What the rows of a ledger say; `Ledger` is one that can be written to.

    Edge cases: a run's clients are 0 … n − 1 in everything it asks here (`affordable`, `Budget.clients`). What is read
    back (`entries`, books, `participations`, `population`) counts all clients that the ledger ever saw, by their
    numbers in it; `members` gives the number of each client of the run.
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
        self._owed: list[tuple[LedgerEntry, bool]] = []
        """Settlements that are not written down yet, and whether all sent whom their reservations name."""
        self._waiting: tuple[int, bytes] | None = None
        """The head of a settlement that waits to become durable and published."""
        self._publishing = Lock()
        self._members: IntArray | None = None
        self._outside: tuple[int, IntArray] = (0, np.empty(0, np.int64))

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
    def newest(self) -> str:
        """The hash of the last row, in hex, which a machine that dies may still lose: to see whether rows came."""
        return self._chain.head()[1].hex()

    @property
    def entries(self) -> list[LedgerEntry]:
        """All releases, in order."""
        return list(self._state.entries.values())

    def beside(self, run: str) -> list[LedgerEntry]:
        """Returns the releases of all other runs."""
        return self._state.beside(run)

    def of(self, run: str) -> list[LedgerEntry]:
        """Returns the releases of one run."""
        return self._state.of(run)

    @property
    def rounds(self) -> int:
        """How many releases of rounds there are, those before a first round not counted."""
        return self._state.rounds

    @property
    def guarantees(self) -> list[Guarantee]:
        """All kinds of promise that were ever charged."""
        return self._state.guarantees

    @property
    def participations(self) -> IntArray:
        """How many times each client's message left it (all clients of the ledger, by number)."""
        return self._state.participations.copy()

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

    def epsilons(
        self, guarantee: Guarantee, delta: float, accountant: str = "pld", extra: DpEvent | None = None
    ) -> FloatArray:
        """Returns ε of every client at δ, as if each had also paid for `extra`; ∞ where a release promised nothing."""
        found = self.book(guarantee).prices(delta, accountant, extra).epsilon
        return np.where(self.unpromised(guarantee)[0], np.inf, found)

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
        return clash(self.beside(run), wanted)

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

    def _implied(self, charges: Sequence[Charge], bound: set[Guarantee] | None) -> list[Charge]:
        """Returns what a release costs under older promises that it is not charged to and that follow from its own."""
        given = {charge.guarantee for charge in charges}
        told = []
        for older in self.guarantees:
            by = source(given, older) if older not in given else None
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

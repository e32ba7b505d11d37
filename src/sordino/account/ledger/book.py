"""One guarantee's book: what every client has paid, in a form in which a million clients are a few arrays.

A client's history is a multiset of events. Every event gets a random 64-bit weight (a hash of its description), and a
client's `key` is the sum of the weights that it paid for: equal histories have equal keys, in whatever order they came,
so histories are told apart, counted and priced once without ever being built for every client (Zobrist hashing).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.accountant import Curve
from sordino.account.accountants.filter import Filter
from sordino.account.accountants.history import flatten
from sordino.account.ledger import pricing
from sordino.account.ledger.budget import Headroom
from sordino.account.ledger.cohort import Cohort
from sordino.events import DpEvent, Guarantee, encode
from sordino.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Payment:
    """One event, and who paid for it: the members of `cohort`, or everyone but them (who was there at the time)."""

    event: DpEvent
    cohort: Cohort
    inverted: bool

    def paid_by(self, clients: IntArray) -> NDArray[np.int64]:
        """Returns 1 for each client that paid, else 0."""
        members = self.cohort.contains(clients)
        return (~members & (clients < self.cohort.population) if self.inverted else members).astype(np.int64)


@dataclass(frozen=True)
class Group:
    """Clients with the same history."""

    history: Counter[DpEvent]
    clients: int
    example: int


class Book:
    """All payments under one guarantee. Not thread-safe; the ledger owns it."""

    def __init__(self, guarantee: Guarantee, population: int) -> None:
        self.guarantee = guarantee
        self.population = population
        self.keys = np.zeros(population, np.uint64)
        """One number a client; equal for equal histories."""
        self._payments: dict[int, list[Payment]] = {}

    def add(self, seq: int, payment: Payment) -> None:
        """Enters a payment under the reservation `seq`."""
        self._payments.setdefault(seq, []).append(payment)
        self._shift(payment, np.add)

    def remove(self, seq: int) -> None:
        """Takes back everything entered under `seq` (a settlement replaces its reservation)."""
        for payment in self._payments.pop(seq, []):
            self._shift(payment, np.subtract)

    def grow(self, population: int) -> None:
        """Makes room for clients that came later: they have paid nothing so far."""
        more = np.zeros(population - self.population, np.uint64)
        for payment in self._all():
            if payment.inverted:
                more -= _weight(payment.event)
        self.keys, self.population = np.concatenate([self.keys, more]), population

    def groups(self) -> list[Group]:
        """Returns the different histories, with how many clients share each."""
        _, first, counts = np.unique(self.keys, return_index=True, return_counts=True)
        histories = self.histories(first.astype(np.int64))
        return [Group(h, int(n), int(client)) for h, n, client in zip(histories, counts, first, strict=True)]

    def histories(self, clients: IntArray) -> list[Counter[DpEvent]]:
        """Returns the flattened history of each of these clients."""
        kinds: dict[DpEvent, NDArray[np.int64]] = {}
        for payment in self._all():
            counts = kinds.setdefault(payment.event, np.zeros(len(clients), np.int64))
            counts += payment.paid_by(clients)
        histories: list[Counter[DpEvent]] = [Counter() for _ in clients]
        for event, counts in kinds.items():
            leaves = flatten(event)
            for place in np.flatnonzero(counts):
                for leaf, times in leaves.items():
                    histories[place][leaf] += times * int(counts[place])
        return histories

    def events(self, extra: DpEvent | None = None) -> set[DpEvent]:
        """Returns the different events that were paid for, and `extra`."""
        return {payment.event for payment in self._all()} | ({extra} if extra is not None else set())

    def sums(self, costs: Mapping[DpEvent, FloatArray], extra: DpEvent | None = None) -> FloatArray:
        """Returns the sum of the costs of what each client paid for and of `extra`, `[cost, population]`."""
        width = len(next(iter(costs.values()), np.empty(0)))
        each = np.zeros((width, self.population))
        everyone = {self.population: np.zeros(width) if extra is None else costs[extra].astype(np.float64)}
        for payment in self._all():
            cost, known = costs[payment.event], payment.cohort.population
            if payment.inverted:
                everyone[known] = everyone.get(known, 0.0) + cost
            each[:, payment.cohort.ids()] += (-cost if payment.inverted else cost)[:, None]
        for known, cost in everyone.items():
            each[:, :known] += cost[:, None]
        return each

    def plain(self, extra: DpEvent | None = None) -> bool:
        """Returns whether all that was paid for is plain Gaussians, whose sum has a closed form."""
        return all(gaussian.separation(flatten(event)) is not None for event in self.events(extra))

    @property
    def by_participation(self) -> bool:
        """Whether anybody paid here for taking part, so that what is spent depends on the selection's coins."""
        return any(not payment.inverted for payment in self._all())

    def prices(self, delta: float, accountant: str = "pld", extra: DpEvent | None = None) -> pricing.ClientPrices:
        """Returns ε of every client at δ, as if each had also paid for `extra`."""
        return pricing.prices(self, delta, accountant, extra)

    def ceiling(self, delta: float, accountant: str = "pld") -> tuple[int, Curve]:
        """Returns the client that paid most at δ, and a curve that bounds every client's, at every δ."""
        return pricing.ceiling(self, delta, accountant)

    def charged(self, delta: float, accountant: str = "pld") -> list[Mapping[DpEvent, int]]:
        """Returns histories whose highest curve bounds every client's, for somebody without the book to price."""
        return pricing.charged(self, delta, accountant)

    def affords(
        self,
        event: DpEvent,
        limits: FloatArray,
        delta: float,
        accountant: str,
        headroom: Headroom,
        clients: IntArray | None = None,
    ) -> BoolArray:
        """Returns which of the clients (None: all) keep within their limit if they also pay for `event`."""
        return pricing.affords(self, event, limits, delta, accountant, headroom, clients)

    def admitted(
        self, chosen: Filter, limits: FloatArray, event: DpEvent | None = None, clients: IntArray | None = None
    ) -> BoolArray:
        """Returns whom of the clients (None: all) the filter, lowered to each one's limit, admits, `event` included."""
        return pricing.admitted(self, chosen, limits, event, clients)

    def _shift(self, payment: Payment, sign: Callable[..., NDArray[np.uint64]]) -> None:
        # Only differences between clients matter, so "everyone but these" is a change to these alone.
        if payment.inverted:
            sign = np.subtract if sign is np.add else np.add
            members = payment.cohort.rest(self.population)
        else:
            members = payment.cohort.ids()
        self.keys[members] = sign(self.keys[members], _weight(payment.event))

    def _all(self) -> Sequence[Payment]:
        return [payment for payments in self._payments.values() for payment in payments]


@lru_cache(maxsize=4096)
def _weight(event: DpEvent) -> NDArray[np.uint64]:
    """Returns the sum of the leaves' hashes, so that composed and separate events weigh the same."""
    total = 0
    for leaf, count in flatten(event).items():
        name = json.dumps(encode(leaf), sort_keys=True).encode()
        digest = hashlib.blake2b(name, digest_size=8, person=b"sordino.event").digest()
        total += count * int.from_bytes(digest, "little")
    return np.array([total % 2**64], np.uint64)

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

from sordino.account import gaussian, rdp, renyi
from sordino.account.accountant import Curve, epsilon, price, require_delta
from sordino.account.budget import Headroom
from sordino.account.cohort import Cohort
from sordino.account.filter import Filter
from sordino.account.history import flatten
from sordino.events import DpEvent, Guarantee, encode
from sordino.types import BoolArray, FloatArray, IntArray

_PRICED_ONE_BY_ONE = 24
"""Up to so many different histories go through the (slower) tight accountant; more go through Rényi sums together."""
_ORDERS_AT_ONCE = 8
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Payment:
    """One event, and who paid for it: the members of `cohort`, or everyone but them."""

    event: DpEvent
    cohort: Cohort
    inverted: bool

    def paid_by(self, clients: IntArray) -> NDArray[np.int64]:
        """Returns 1 for each client that paid, else 0."""
        return (self.cohort.contains(clients) ^ self.inverted).astype(np.int64)


@dataclass(frozen=True)
class Group:
    """Clients with the same history."""

    history: Mapping[DpEvent, int]
    clients: int
    example: int


@dataclass(frozen=True)
class Prices:
    """ε of every client, and how it was computed."""

    epsilon: FloatArray
    accountant: str
    note: str = ""


class Book:
    """All payments under one guarantee. Not thread-safe; the ledger owns it."""

    def __init__(self, guarantee: Guarantee, population: int) -> None:
        self.guarantee = guarantee
        self.population = population
        self._payments: dict[int, list[Payment]] = {}
        self._keys = np.zeros(population, np.uint64)

    def add(self, seq: int, payment: Payment) -> None:
        """Enters a payment under the reservation `seq`."""
        self._payments.setdefault(seq, []).append(payment)
        self._shift(payment, np.add)

    def remove(self, seq: int) -> None:
        """Takes back everything entered under `seq` (a settlement replaces its reservation)."""
        for payment in self._payments.pop(seq, []):
            self._shift(payment, np.subtract)

    def groups(self) -> list[Group]:
        """Returns the different histories, with how many clients share each."""
        _, first, counts = np.unique(self._keys, return_index=True, return_counts=True)
        histories = self.histories(first.astype(np.int64))
        return [
            Group(history, int(count), int(client))
            for history, count, client in zip(histories, counts, first, strict=True)
        ]

    def histories(self, clients: IntArray) -> list[Counter[DpEvent]]:
        """Returns the flattened history of each of these clients."""
        kinds: dict[DpEvent, NDArray[np.int64]] = {}
        for payment in self._all():
            counts = kinds.setdefault(payment.event, np.zeros(len(clients), np.int64))
            counts += payment.paid_by(clients)
        leaves = {event: flatten(event) for event in kinds}
        histories: list[Counter[DpEvent]] = [Counter() for _ in clients]
        for event, counts in kinds.items():
            for place in np.flatnonzero(counts):
                for leaf, times in leaves[event].items():
                    histories[place][leaf] += times * int(counts[place])
        return histories

    def prices(self, delta: float, accountant: str = "pld", extra: DpEvent | None = None) -> Prices:
        """Returns ε of every client at δ, as if each had also paid for `extra`.

        Formal guarantees: every number is an upper bound; `accountant` names who computed it. Few different histories
        are priced one by one with the accountant asked for; many plain Gaussians by their exact sum, and many others
        by Rényi sums.
        """
        require_delta(delta)
        _, first, inverse = np.unique(self._keys, return_index=True, return_inverse=True)
        if self._plain(extra) and accountant in ("pld", "exact") and len(first) > _PRICED_ONE_BY_ONE:
            return Prices(self._gaussian_sums(delta, extra), "exact")
        if accountant in ("pld", "rdp") and len(first) > _PRICED_ONE_BY_ONE:
            note = "" if accountant == "rdp" else f"shown by rdp: {len(first)} different histories are too many for pld"
            return Prices(self._renyi_sums(delta, extra), "rdp", note)
        histories = self.histories(first.astype(np.int64))
        if extra is not None:
            histories = [history + flatten(extra) for history in histories]
        numbers = np.array([epsilon(history, delta, accountant, self.guarantee.adjacency) for history in histories])
        dearest = price(histories[int(np.argmax(numbers))], accountant, self.guarantee.adjacency)
        return Prices(numbers[inverse], dearest.accountant, dearest.note)

    def ceiling(self, delta: float, accountant: str = "pld") -> tuple[int, Curve]:
        """Returns the client that paid most at δ, and a curve that bounds every client's, at every δ.

        One client's curve does so when its history contains everybody else's (and always for plain Gaussians, whose
        curves never cross). Otherwise the curve is the upper envelope of all maximal histories.
        """
        found = self.prices(delta, accountant)
        client = int(np.argmax(found.epsilon))
        mine = self.histories(np.array([client]))[0]
        adjacency = self.guarantee.adjacency
        if self._plain(None) or np.isinf(found.epsilon[client]) or (found.note and self._contains_all(client)):
            return client, price(mine, accountant, adjacency)
        if found.note:
            return client, self._envelope(found.note)
        curves = [
            price(history, accountant, adjacency) for history in _maximal([group.history for group in self.groups()])
        ]
        return client, curves[0] if len(curves) == 1 else _highest(curves)

    @property
    def plain(self) -> bool:
        """Whether all that was paid for is plain Gaussians, whose sum has a closed form."""
        return self._plain(None)

    def _plain(self, extra: DpEvent | None) -> bool:
        return all(gaussian.separation(flatten(event)) is not None for event in self._events(extra))

    def _contains_all(self, client: int) -> bool:
        """Returns whether this client paid for every kind of event at least as often as everybody."""
        events = sorted(self._events(None), key=str)
        for start in range(0, len(events), _ORDERS_AT_ONCE):
            part = events[start : start + _ORDERS_AT_ONCE]
            marks = {event: np.array([float(event == kind) for kind in part]) for event in events}
            counts = self._sum(marks, None)
            if np.any(counts.max(axis=1) > counts[:, client] + 0.5):
                return False
        return True

    def _envelope(self, note: str) -> Curve:
        orders, costs = renyi.MODERN_ORDERS, self._renyi_costs(None)
        parts = [slice(start, start + _ORDERS_AT_ONCE) for start in range(0, len(orders), _ORDERS_AT_ONCE)]
        highest = np.concatenate(
            [self._sum({event: cost[part] for event, cost in costs.items()}, None).max(axis=1) for part in parts]
        )
        return Curve(
            "rdp",
            lambda delta: renyi.epsilon_modern(orders, highest, delta),
            lambda epsilon: renyi.delta_modern(orders, highest, epsilon),
            note,
        )

    def affords(
        self, event: DpEvent, limits: FloatArray, delta: float, accountant: str, headroom: Headroom
    ) -> BoolArray:
        """Returns which clients keep within their limit if they also pay for `event`."""
        cases = self._keys ^ (limits.view(np.uint64) * _ODD)
        _, first, inverse = np.unique(cases, return_index=True, return_inverse=True)
        if len(first) > _PRICED_ONE_BY_ONE:
            return np.asarray(self.prices(delta, accountant, event).epsilon <= limits, dtype=np.bool_)
        adjacency, examples = self.guarantee.adjacency, first.astype(np.int64)
        answers = [
            headroom.fits(history, event, float(limit), delta, accountant, adjacency)
            for history, limit in zip(self.histories(examples), limits[examples], strict=True)
        ]
        return np.array(answers, np.bool_)[inverse]

    def admitted(self, chosen: Filter, limits: FloatArray, event: DpEvent | None = None) -> BoolArray:
        """Returns which clients the filter, lowered to each one's limit, admits, if they also pay for `event`."""
        adjacency, events = self.guarantee.adjacency, self._events(event)
        if not events:
            return np.ones(self.population, np.bool_)
        spent = self._sum({kind: np.array([chosen.cost(kind, adjacency)]) for kind in events}, event)[0]
        distinct, inverse = np.unique(np.minimum(limits, chosen.epsilon), return_inverse=True)
        capacity = np.array([chosen.lowered(float(limit)).capacity for limit in distinct])[inverse]
        return np.asarray(spent <= capacity * (1 + 1e-12), dtype=np.bool_)

    @property
    def by_participation(self) -> bool:
        """Whether anybody paid here for taking part, so that what is spent depends on the selection's coins."""
        return any(not payment.inverted for payment in self._all())

    def _gaussian_sums(self, delta: float, extra: DpEvent | None) -> FloatArray:
        costs = {event: np.array([(gaussian.separation(flatten(event)) or 0.0) ** 2]) for event in self._events(extra)}
        total = self._sum(costs, extra)[0]
        return gaussian.epsilons_of(np.sqrt(np.maximum(total, 0.0)), delta)

    def _renyi_sums(self, delta: float, extra: DpEvent | None) -> FloatArray:
        orders, costs = renyi.MODERN_ORDERS, self._renyi_costs(extra)
        unbounded = {event: np.array([float(np.isinf(cost).any())]) for event, cost in costs.items()}
        # An infinite cost would poison the sums of clients that were left out of it: it is marked apart.
        costs = {event: np.where(np.isinf(cost), 0.0, cost) for event, cost in costs.items()}
        best = np.full(self.population, np.inf)
        for start in range(0, len(orders), _ORDERS_AT_ONCE):
            part = slice(start, start + _ORDERS_AT_ONCE)
            a = orders[part, None]
            total = self._sum({event: cost[part] for event, cost in costs.items()}, extra)
            converted = np.maximum(total, 0.0) + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)
            np.minimum(best, converted.min(axis=0), out=best)
        best[self._sum({event: np.ones(1) for event in costs}, extra)[0] < 0.5] = 0.0
        best[self._sum(unbounded, extra)[0] > 0.5] = np.inf
        return np.asarray(np.maximum(best, 0.0), dtype=np.float64)

    def _renyi_costs(self, extra: DpEvent | None) -> dict[DpEvent, FloatArray]:
        adjacency = self.guarantee.adjacency
        return {event: rdp.divergence(flatten(event), renyi.MODERN_ORDERS, adjacency) for event in self._events(extra)}

    def _sum(self, costs: Mapping[DpEvent, FloatArray], extra: DpEvent | None) -> FloatArray:
        """Returns the sum of the costs that each client paid, `[cost, population]`."""
        width = len(next(iter(costs.values()), np.empty(0)))
        everyone, each = np.zeros(width), np.zeros((width, self.population))
        if extra is not None:
            everyone += costs[extra]
        for payment in self._all():
            cost = costs[payment.event]
            if payment.inverted:
                everyone += cost
            each[:, payment.cohort.ids()] += (-cost if payment.inverted else cost)[:, None]
        return np.asarray(each + everyone[:, None], dtype=np.float64)

    def _events(self, extra: DpEvent | None) -> set[DpEvent]:
        return {payment.event for payment in self._all()} | ({extra} if extra is not None else set())

    def _shift(self, payment: Payment, sign: Callable[..., NDArray[np.uint64]]) -> None:
        # Only differences between clients matter, so "everyone but these" is a change to these alone.
        if payment.inverted:
            sign = np.subtract if sign is np.add else np.add
        members = payment.cohort.ids()
        self._keys[members] = sign(self._keys[members], _weight(payment.event))

    def _all(self) -> Sequence[Payment]:
        return [payment for payments in self._payments.values() for payment in payments]


@lru_cache(maxsize=4096)
def _weight(event: DpEvent) -> NDArray[np.uint64]:
    """Returns the sum of the leaves' hashes, so that composed and separate events weigh the same."""
    total = 0
    for leaf, count in flatten(event).items():
        name = json.dumps(encode(leaf), sort_keys=True).encode()
        total += count * int.from_bytes(
            hashlib.blake2b(name, digest_size=8, person=b"sordino.event").digest(), "little"
        )
    return np.array([total % 2**64], np.uint64)


def _maximal(histories: Sequence[Mapping[DpEvent, int]]) -> list[Mapping[DpEvent, int]]:
    """Returns the histories that no other one contains."""
    different = [history for place, history in enumerate(histories) if history not in histories[:place]]
    return [one for one in different if not any(one is not other and _contains(other, one) for other in different)]


def _contains(large: Mapping[DpEvent, int], small: Mapping[DpEvent, int]) -> bool:
    return all(large.get(event, 0) >= count for event, count in small.items())


def _highest(curves: Sequence[Curve]) -> Curve:
    """Returns the upper envelope of several curves."""
    return Curve(
        " and ".join(sorted({curve.accountant for curve in curves})),
        lambda delta: max(curve.epsilon(delta) for curve in curves),
        lambda epsilon: max(curve.delta(epsilon) for curve in curves),
        "; ".join(sorted({curve.note for curve in curves} - {""})),
        "; ".join(sorted({curve.reason for curve in curves if curve.reason})) or None,
    )

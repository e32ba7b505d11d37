"""What the clients of one book have spent, all at once: few different histories tightly, many of them by their sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants import rdp, renyi
from sordino.account.accountants.accountant import Curve, epsilon, price, require_delta
from sordino.account.accountants.filter import Filter
from sordino.account.accountants.history import flatten, key
from sordino.account.ledger.budget import Headroom, divide
from sordino.events import DpEvent, Unbounded
from sordino.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from sordino.account.ledger.book import Book

_FEW = 48
"""Up to so many different histories go through the (slower) tight accountant one by one."""
_SEVERAL = 4096
"""Up to so many different histories are looked at one by one when it is cheap to tell whether they fit a budget."""
_AT_ONCE = 8
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class ClientPrices:
    """ε of every client, and how it was computed."""

    epsilon: FloatArray
    accountant: str
    note: str = ""
    summed: bool = False
    """Whether all histories were priced together, by their sums."""


def prices(book: Book, delta: float, accountant: str = "pld", extra: DpEvent | None = None) -> ClientPrices:
    """Returns ε of every client at δ, as if each had also paid for `extra`.

    Formal guarantees: every number is an upper bound; `accountant` names who computed it. Few different histories are
    priced one by one with the accountant asked for; many plain Gaussians by their exact sum, and many others by Rényi
    sums.
    """
    require_delta(delta)
    _, first, inverse = np.unique(book.keys, return_index=True, return_inverse=True)
    if len(first) > _FEW and accountant in ("pld", "exact") and book.plain(extra):
        return ClientPrices(_gaussian_sums(book, delta, extra), "exact", summed=True)
    if len(first) > _FEW and accountant in ("pld", "rdp"):
        note = "" if accountant == "rdp" else f"shown by rdp: {len(first)} different histories are too many for pld"
        return ClientPrices(_renyi_sums(book, delta, extra), "rdp", note, summed=True)
    histories = book.histories(first.astype(np.int64))
    if extra is not None:
        histories = [history + flatten(extra) for history in histories]
    numbers = np.array([epsilon(history, delta, accountant, book.guarantee.adjacency) for history in histories])
    dearest = price(histories[int(np.argmax(numbers))], accountant, book.guarantee.adjacency)
    return ClientPrices(numbers[inverse], dearest.accountant, dearest.note)


def ceiling(book: Book, delta: float, accountant: str = "pld") -> tuple[int, Curve]:
    """Returns the client that paid most at δ, and a curve that bounds every client's, at every δ.

    One client's curve does so when its history contains everybody else's (and always for plain Gaussians, whose curves
    never cross). Otherwise the curve is the upper envelope of all maximal histories.
    """
    found, adjacency = prices(book, delta, accountant), book.guarantee.adjacency
    client = int(np.argmax(found.epsilon))
    if book.plain() or np.isinf(found.epsilon[client]) or (found.summed and _contains_all(book, client)):
        return client, price(book.histories(np.array([client]))[0], accountant, adjacency)
    if found.summed:
        return client, _envelope(book, found.note)
    curves = [price(one, accountant, adjacency) for one in _maximal([group.history for group in book.groups()])]
    return client, curves[0] if len(curves) == 1 else highest(curves)


def affords(
    book: Book,
    event: DpEvent,
    limits: FloatArray,
    delta: float,
    accountant: str,
    headroom: Headroom,
    clients: IntArray | None = None,
) -> BoolArray:
    """Returns which of the clients (None: all) keep within their limit if they also pay for `event`.

    Clients that differ only in how often they paid for this same event share one question to the accountant, so that a
    steady schedule is decided tightly however many different counts there are.
    """
    cases = (book.keys if clients is None else book.keys[clients]) ^ (limits.view(np.uint64) * _ODD)
    _, first, inverse = np.unique(cases, return_index=True, return_inverse=True)
    examples, adjacency = first.astype(np.int64) if clients is None else clients[first], book.guarantee.adjacency
    if len(first) <= _SEVERAL:
        histories, step = book.histories(examples), flatten(event)
        if len({key(divide(history, step)[0]) for history in histories}) <= _FEW:
            pairs = zip(histories, limits[first], strict=True)
            answers = [headroom.fits(h, event, float(limit), delta, accountant, adjacency) for h, limit in pairs]
            return np.array(answers, np.bool_)[inverse]
    found = prices(book, delta, accountant, event).epsilon
    return np.asarray((found if clients is None else found[clients]) <= limits, dtype=np.bool_)


def charged(book: Book, delta: float, accountant: str = "pld") -> list[Mapping[DpEvent, int]]:
    """Returns histories whose highest curve bounds every client's: what a certificate has to tell to be checked.

    Few histories are told as they are (those that no other one contains). Of many, the dearest where it contains all
    others or where curves never cross (plain Gaussians), else the most of each event that anybody was charged.
    """
    if len(np.unique(book.keys)) <= _FEW and not book.plain():
        return _maximal([group.history for group in book.groups()])
    client = int(np.argmax(prices(book, delta, accountant).epsilon))
    if book.plain() or _contains_all(book, client):
        return [book.histories(np.array([client]))[0]]
    events = sorted(book.events(), key=str)
    marks = {event: np.array([float(event == kind) for kind in events]) for event in events}
    most = book.sums(marks).max(axis=1)
    total: Counter[DpEvent] = Counter()
    for event, count in zip(events, most, strict=True):
        for leaf, times in flatten(event).items():
            total[leaf] += times * round(float(count))
    return [total]


def admitted(
    book: Book, chosen: Filter, limits: FloatArray, event: DpEvent | None = None, clients: IntArray | None = None
) -> BoolArray:
    """Returns whom of the clients (None: all) the filter, lowered to each one's limit, admits, `event` included.

    Whoever paid what nothing bounds has spent more than any filter that holds to a budget admits.
    """
    adjacency, events = book.guarantee.adjacency, book.events(event)
    if not events:
        return np.ones(len(limits), np.bool_)
    lost = {kind: any(isinstance(leaf, Unbounded) for leaf in flatten(kind)) for kind in events}
    costs = {kind: np.array([0.0 if lost[kind] else chosen.cost(kind, adjacency)]) for kind in events}
    spent = book.sums(costs, event)[0]
    if any(lost.values()):
        spent = np.where(
            book.sums({kind: np.array([float(lost[kind])]) for kind in events}, event)[0] > 0.5, np.inf, spent
        )
    spent = spent if clients is None else spent[clients]
    distinct, inverse = np.unique(np.minimum(limits, chosen.epsilon), return_inverse=True)
    capacity = np.array([chosen.lowered(float(limit)).capacity for limit in distinct])[inverse]
    return np.asarray(spent <= capacity * (1 + 1e-12), dtype=np.bool_)


def _gaussian_sums(book: Book, delta: float, extra: DpEvent | None) -> FloatArray:
    costs = {event: np.array([(gaussian.separation(flatten(event)) or 0.0) ** 2]) for event in book.events(extra)}
    return gaussian.epsilons_of(np.sqrt(np.maximum(book.sums(costs, extra)[0], 0.0)), delta)


def _renyi_sums(book: Book, delta: float, extra: DpEvent | None) -> FloatArray:
    costs = _renyi_costs(book, extra)
    unbounded = {event: np.array([float(np.isinf(cost).any())]) for event, cost in costs.items()}
    # An infinite cost would poison the sums of clients that were left out of it: it is marked apart.
    costs = {event: np.where(np.isinf(cost), 0.0, cost) for event, cost in costs.items()}
    best = np.full(book.population, np.inf)
    for part in _parts(len(renyi.MODERN_ORDERS)):
        orders = renyi.MODERN_ORDERS[part, None]
        total = np.maximum(book.sums({event: cost[part] for event, cost in costs.items()}, extra), 0.0)
        converted = total + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
        np.minimum(best, converted.min(axis=0), out=best)
    best[book.sums({event: np.ones(1) for event in costs}, extra)[0] < 0.5] = 0.0
    best[book.sums(unbounded, extra)[0] > 0.5] = np.inf
    return np.asarray(np.maximum(best, 0.0), dtype=np.float64)


def _renyi_costs(book: Book, extra: DpEvent | None) -> dict[DpEvent, FloatArray]:
    orders, adjacency = renyi.MODERN_ORDERS, book.guarantee.adjacency
    return {event: rdp.divergence(flatten(event), orders, adjacency) for event in book.events(extra)}


def _contains_all(book: Book, client: int) -> bool:
    """Returns whether this client paid for every kind of event at least as often as everybody."""
    events = sorted(book.events(), key=str)
    for part in _parts(len(events)):
        marks = {event: np.array([float(event == kind) for kind in events[part]]) for event in events}
        counts = book.sums(marks)
        if np.any(counts.max(axis=1) > counts[:, client] + 0.5):
            return False
    return True


def _envelope(book: Book, note: str) -> Curve:
    """Returns the curve of the highest Rényi cost at each order: nobody's is above it."""
    orders, costs = renyi.MODERN_ORDERS, _renyi_costs(book, None)
    sums = [book.sums({event: cost[part] for event, cost in costs.items()}) for part in _parts(len(orders))]
    highest = np.concatenate([part.max(axis=1) for part in sums])
    return Curve(
        "rdp",
        lambda delta: renyi.epsilon_modern(orders, highest, delta),
        lambda epsilon: renyi.delta_modern(orders, highest, epsilon),
        note,
    )


def _parts(length: int) -> Iterator[slice]:
    # A few rows at a time: a matrix of all orders by a million clients would not fit.
    return (slice(start, start + _AT_ONCE) for start in range(0, length, _AT_ONCE))


def _maximal(histories: Sequence[Mapping[DpEvent, int]]) -> list[Mapping[DpEvent, int]]:
    """Returns the histories that no other one contains."""

    def contained(small: Mapping[DpEvent, int], large: Mapping[DpEvent, int]) -> bool:
        return all(large.get(event, 0) >= count for event, count in small.items())

    return [one for one in histories if not any(one is not other and contained(one, other) for other in histories)]


def highest(curves: Sequence[Curve]) -> Curve:
    """Returns the upper envelope of several curves."""
    return Curve(
        " and ".join(sorted({curve.accountant for curve in curves})),
        lambda delta: max(curve.epsilon(delta) for curve in curves),
        lambda epsilon: max(curve.delta(epsilon) for curve in curves),
        "; ".join(sorted({curve.note for curve in curves} - {""})),
        "; ".join(sorted({curve.reason for curve in curves if curve.reason})) or None,
    )

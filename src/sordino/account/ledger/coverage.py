"""Which promise follows from which, so that a release charged under one is never forgotten under another.

A federation's certificate speaks of everything that was released about its clients. A release that made no promise of
the kind asked for either made a stronger one from which it follows, or leaves that kind unprotected.
"""

from __future__ import annotations

from collections.abc import Iterable

from sordino.account.ledger.book import Payment
from sordino.account.ledger.entry import LedgerEntry
from sordino.events import Guarantee


def implies(given: Guarantee, wanted: Guarantee) -> bool:
    """Returns whether every pair of worlds that `wanted` compares is one that `given` compares, or a view of it.

    Formal guarantees: an outsider sees a function of what the server sees. `replace` allows any change of the unit,
    setting it to zero included. A change of one record is a change of its client, which a client's `replace` allows
    whatever happens to the record. Nothing else follows: a client's `zero_out` compares with a silent client only, and
    absence (`add_remove`) is not silence where noise travels with messages.
    """
    sees = given.observer == wanted.observer or (given.observer, wanted.observer) == ("server", "outsider")
    if given.unit == wanted.unit:
        same = given.adjacency == wanted.adjacency
        return sees and (same or (given.adjacency, wanted.adjacency) == ("replace", "zero_out"))
    return sees and (given.unit, given.adjacency, wanted.unit) == ("client", "replace", "record")


def source(given: Iterable[Guarantee], wanted: Guarantee) -> Guarantee | None:
    """Returns under which of the given promises `wanted` is paid for: itself, or the first from which it follows."""
    ranked = sorted(set(given), key=lambda promise: (promise != wanted, str(promise)))
    return next((promise for promise in ranked if implies(promise, wanted)), None)


def payments(entry: LedgerEntry, wanted: Guarantee) -> list[Payment] | None:
    """Returns what a release costs under `wanted`, and whom; None when it promised nothing of the kind."""
    if not entry.charges:
        return []
    given = source((charge.guarantee for charge in entry.charges), wanted)
    if given is None:
        return None
    return [
        Payment(charge.event, entry.excluded if everyone else entry.participants, everyone)
        for charge in entry.charges
        if charge.guarantee == given
        for everyone in [charge.payers == "eligible"]
    ]

"""The ledger line by line: every release, who paid, what it cost alone and together with all before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.account.accountant import epsilon
from sordino.account.entry import Entry, costs_of
from sordino.account.history import flatten
from sordino.account.ledger import Ledger
from sordino.errors import LedgerError
from sordino.events import Charge, DpEvent, Guarantee, describe

_TIGHT_UP_TO = 50
"""Releases whose running sum is priced tightly; longer ledgers show Rényi sums (an upper bound) instead."""


@dataclass(frozen=True)
class Line:
    """One charge of one release."""

    row: int
    run: str
    round: int
    time: str
    settled: bool
    clients: int
    guarantee: Guarantee
    payers: str
    event: str
    cost: float | None
    client: int
    """Whose running sum `cumulative` is: the client asked for, or the one that has paid most."""
    paid: bool
    cumulative: float | None

    def record(self) -> dict[str, Any]:
        """Returns the line as plain JSON."""
        promise = {
            "unit": self.guarantee.unit,
            "observer": self.guarantee.observer,
            "adjacency": self.guarantee.adjacency,
        }
        return {**vars(self), "guarantee": promise}


def listing(
    ledger: Ledger, run: str | None = None, client: int | None = None, accountant: str = "pld"
) -> Iterator[Line]:
    """Yields every charge in order; with `run`, that run's; with `client`, what that client paid.

    Running sums always count everything before, other runs included.
    """
    if client is not None and not 0 <= client < ledger.population:
        raise LedgerError(f"client {client} is outside the population 0 … {ledger.population - 1}")
    who = {guarantee: _payer(ledger, guarantee, client) for guarantee in ledger.guarantees}
    tight = accountant if len(ledger.entries) <= _TIGHT_UP_TO or accountant != "pld" else "rdp"
    totals: dict[Guarantee, Counter[DpEvent]] = {guarantee: Counter() for guarantee in who}
    for entry in ledger.entries:
        for charge, cost in zip(entry.charges, costs_of(entry.charges, ledger.delta), strict=True):
            payer = who[charge.guarantee]
            paid = _paid(entry, charge, payer)
            if paid:
                totals[charge.guarantee] += flatten(charge.event)
            if (run is None or entry.run == run) and (client is None or paid):
                spent = epsilon(totals[charge.guarantee], ledger.delta, tight, charge.guarantee.adjacency)
                yield _line(entry, charge, cost, payer, paid, spent)


def _line(entry: Entry, charge: Charge, cost: float | None, payer: int, paid: bool, spent: float) -> Line:
    return Line(
        row=entry.seq,
        run=entry.run,
        round=entry.round_,
        time=entry.time,
        settled=entry.settled,
        clients=len(entry.participants),
        guarantee=charge.guarantee,
        payers=charge.payers,
        event=describe(charge.event),
        cost=cost,
        client=payer,
        paid=paid,
        cumulative=spent if np.isfinite(spent) else None,
    )


def _payer(ledger: Ledger, guarantee: Guarantee, client: int | None) -> int:
    return client if client is not None else int(np.argmax(ledger.book(guarantee).prices(ledger.delta, "rdp").epsilon))


def _paid(entry: Entry, charge: Charge, client: int) -> bool:
    one = np.array([client])
    if charge.payers == "eligible":
        return not bool(entry.excluded.contains(one)[0])
    return bool(entry.participants.contains(one)[0])

"""The ledger line by line: every release, who paid, what it cost alone and together with all before it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.account.accountants.accountant import epsilon
from sordino.account.accountants.history import flatten
from sordino.account.ledger.coverage import payments
from sordino.account.ledger.entry import LedgerEntry
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError
from sordino.events import Charge, DpEvent, Guarantee, Unbounded, describe

_TIGHT_UP_TO = 50
"""Releases that are priced tightly; longer ledgers show Rényi sums (an upper bound) where there is no closed form."""


@dataclass(frozen=True)
class LedgerLine:
    """One charge of one release."""

    row: int
    run: str
    round: int
    time: str
    settled: bool
    participants: tuple[int, ...]
    guarantee: Guarantee
    payers: str
    event: str
    cost: float | None
    client: int
    """Whose running sum `cumulative` is: the client asked for, or the one that has paid most."""
    paid: bool
    cumulative: float | None
    accountant: str

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
) -> Iterator[LedgerLine]:
    """Yields every charge in order; with `run`, that run's; with `client`, what that client paid.

    Running sums always count everything before, other runs included: what was charged to a promise from which another
    follows counts under both, and after a release that promised its client nothing of the kind there is no sum.
    """
    if client is not None and not 0 <= client < ledger.population:
        raise LedgerError(f"client {client} is outside the population 0 … {ledger.population - 1}")
    who = {guarantee: _payer(ledger, guarantee, client) for guarantee in ledger.guarantees}
    many = accountant == "pld" and len(ledger.entries) > _TIGHT_UP_TO
    tight = {guarantee: "rdp" if many and not ledger.book(guarantee).plain() else accountant for guarantee in who}
    totals: dict[Guarantee, Counter[DpEvent]] = {guarantee: Counter() for guarantee in who}
    for entry in ledger.entries:
        for guarantee in who.keys() - {charge.guarantee for charge in entry.charges}:
            totals[guarantee] += _beside(entry, guarantee, who[guarantee])
        for charge in entry.charges:
            payer = who[charge.guarantee]
            paid = _paid(entry, charge, payer)
            if paid:
                totals[charge.guarantee] += flatten(charge.event)
            if (run is None or entry.run == run) and (client is None or paid):
                yield _line(ledger, entry, charge, totals[charge.guarantee], payer, paid, tight[charge.guarantee])


def _line(
    ledger: Ledger, entry: LedgerEntry, charge: Charge, total: Counter[DpEvent], payer: int, paid: bool, accountant: str
) -> LedgerLine:
    def cost(history: Counter[DpEvent]) -> float | None:
        found = epsilon(history, ledger.delta, accountant, charge.guarantee.adjacency)
        return found if math.isfinite(found) else None

    return LedgerLine(
        row=entry.seq,
        run=entry.run,
        round=entry.round_,
        time=entry.time,
        settled=entry.settled,
        participants=tuple(entry.participants.ids().tolist()),
        guarantee=charge.guarantee,
        payers=charge.payers,
        event=describe(charge.event),
        cost=cost(flatten(charge.event)),
        client=payer,
        paid=paid,
        cumulative=cost(total),
        accountant=accountant,
    )


def _beside(entry: LedgerEntry, guarantee: Guarantee, client: int) -> Counter[DpEvent]:
    """Returns what a release costs a client under a promise that it was not charged to."""
    one, paid = np.array([client]), payments(entry, guarantee)
    if paid is None:
        met = bool(entry.participants.contains(one)[0])
        return Counter({Unbounded("it promised nothing of the kind"): 1} if met else {})
    return sum((flatten(each.event) for each in paid if each.paid_by(one)[0]), Counter[DpEvent]())


def _payer(ledger: Ledger, guarantee: Guarantee, client: int | None) -> int:
    return client if client is not None else int(np.argmax(ledger.epsilons(guarantee, ledger.delta, "rdp")))


def _paid(entry: LedgerEntry, charge: Charge, client: int) -> bool:
    one = np.array([client])
    if charge.payers == "eligible":
        return client < entry.excluded.population and not bool(entry.excluded.contains(one)[0])
    return bool(entry.participants.contains(one)[0])

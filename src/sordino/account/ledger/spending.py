"""What earlier runs took from a budget, and which promises a new run could not keep: to be said before it starts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sordino.account.ledger.book import Book
from sordino.account.ledger.coverage import implies, payments
from sordino.account.ledger.entry import LedgerEntry
from sordino.events import Guarantee
from sordino.types import IntArray


def spent_by_runs(
    entries: Sequence[LedgerEntry],
    guarantee: Guarantee,
    population: int,
    members: IntArray | None,
    delta: float,
    accountant: str,
) -> list[tuple[str, float]]:
    """Returns ε at δ that each run alone cost the client who paid it most (∞ where it promised nothing of the kind).

    Runs that cost none of the clients anything are left out.
    """
    told = []
    for run in dict.fromkeys(entry.run for entry in entries):
        book, lost = Book(guarantee, population), False
        for entry in (entry for entry in entries if entry.run == run):
            paid = payments(entry, guarantee)
            if paid is None:
                met = entry.participants.ids() if members is None else entry.participants.contains(members).nonzero()[0]
                lost |= bool(len(met))
            for payment in paid or []:
                book.add(entry.seq, payment)
        costs = book.prices(delta, accountant).epsilon
        most = math.inf if lost else float((costs if members is None else costs[members]).max(initial=0.0))
        if most > 0:
            told.append((run, most))
    return told


def spent_words(spent: Sequence[tuple[str, float]], guarantee: Guarantee, epsilon: float | None = None) -> str:
    """Returns a sentence that names the runs that have spent, empty when none has."""
    if not spent:
        return ""
    runs = ", ".join(f"{run} (ε = {'∞' if math.isinf(cost) else f'{cost:.4g}'})" for run, cost in spent)
    of = "" if epsilon is None else f" of the budget ε = {epsilon:g}"
    return (
        f"earlier runs on this ledger have spent{of} for a {guarantee.unit} against the {guarantee.observer} "
        f"({guarantee.adjacency}): {runs}; this run pays on top of them"
    )


def clash(entries: Sequence[LedgerEntry], wanted: Iterable[Guarantee]) -> list[str]:
    """Returns a sentence for each promise that earlier runs and a run that promises `wanted` would make infinite."""
    wanted, charged = list(dict.fromkeys(wanted)), [entry for entry in entries if entry.charges]
    words = [
        f"{_named(guarantee)} will be ∞ for clients of run {', '.join(runs)}, which promised them nothing of the kind"
        for guarantee in wanted
        if (runs := dict.fromkeys(entry.run for entry in charged if payments(entry, guarantee) is None))
    ]
    words += [
        f"{_named(guarantee)}, made by earlier runs, becomes ∞: this run promises nothing of the kind"
        for guarantee in dict.fromkeys(charge.guarantee for entry in charged for charge in entry.charges)
        if not any(implies(given, guarantee) for given in wanted)
    ]
    remedy = "choose a mechanism that promises the same unit, observer and adjacency, or accept it"
    return [f"{sentence}; {remedy}" for sentence in words]


def _named(guarantee: Guarantee) -> str:
    return f"the promise to a {guarantee.unit} against the {guarantee.observer} ({guarantee.adjacency})"

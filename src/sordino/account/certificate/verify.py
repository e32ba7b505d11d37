"""Checks a ledger and a certificate against each other: the chain, every cost, every promised ε."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from sordino.account.accountants.filter import named
from sordino.account.certificate.certificate import Assurance, Certificate, certify
from sordino.account.ledger.hash_chain import Store
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerTampered
from sordino.events import Guarantee

_TOLERANCE = 1e-6


def verify(path: Path, certificate: Certificate | None = None) -> Iterator[str]:
    """Yields what was checked, one sentence each.

    Raises:
        LedgerTampered: at the first thing that does not hold.
    """
    with closing(Store.open(path, write=False)) as store:
        store.verify()  # before rows are read back, so that what was changed is named by its place
    with Ledger.open(path, write=False) as ledger:
        ledger.verify()
        settled = sum(entry.settled for entry in ledger.entries)
        yield f"chain: every row is in its place and unchanged (head {ledger.head[:16]}…)"
        yield f"costs: ε of all {len(ledger.entries)} releases follows from their events ({settled} settled)"
    if certificate is not None:
        with Ledger.open(path, write=False, until=certificate.ledger_head) as ledger:
            _compare(path, _again(ledger, certificate), certificate)
        yield f"certificate: all {len(certificate.entries)} promises follow from the ledger"


def _again(ledger: Ledger, certificate: Certificate) -> Certificate:
    guarantees = {Guarantee(e.unit, e.observer, e.adjacency): e for e in certificate.entries}
    filters = {
        guarantee: chosen
        for guarantee, entry in guarantees.items()
        if entry.epsilon is not None and (chosen := named(entry.accountant, entry.epsilon, entry.delta))
    }
    return certify(
        ledger,
        certificate.delta,
        filters=filters,
        stopped_by_participation=certificate.stopped_by_participation,
        early_end=certificate.early_end,
        accountant=certificate.accountant,
    )


def _compare(path: Path, found: Certificate, told: Certificate) -> None:
    if (told.federation, told.population, told.releases) != (found.federation, found.population, found.releases):
        raise LedgerTampered(f"certificate and ledger {path} tell of different federations or releases")
    for entry in told.entries:
        mine = [other for other in found.entries if _names(other) == _names(entry)]
        if not any(_same(entry, other) for other in mine):
            raise LedgerTampered(_sentence(entry, mine, path))


def _names(entry: Assurance) -> tuple[str, str, str]:
    return entry.unit, entry.observer, entry.adjacency


def _same(told: Assurance, found: Assurance) -> bool:
    pairs = [(told.epsilon, found.epsilon), *((a[1], b[1]) for a, b in zip(told.curve, found.curve, strict=True))]
    return all(_agree(*pair) for pair in pairs)


def _agree(told: float | None, found: float | None) -> bool:
    if told is None or found is None:
        return told is found
    return abs(told - found) <= _TOLERANCE * max(1.0, found)


def _sentence(told: Assurance, found: Sequence[Assurance], path: Path) -> str:
    proved = " or ".join(f"ε = {entry.epsilon}" for entry in found) or "nothing of the kind"
    return (
        f"the certificate promises a {told.unit} ε = {told.epsilon} against the {told.observer}, "
        f"and ledger {path} proves {proved}: make the certificate anew"
    )

"""Holds what a run published to what its ledger proves: whoever has the ledger's key could sign less than was spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sordino.account.accountants.filter import Filter
from sordino.account.certificate.certificate import Certificate
from sordino.account.certificate.document import CertificateDocument, Promise
from sordino.account.certificate.publish import promises_of
from sordino.account.ledger.keys import signed
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerTampered
from sordino.events import Guarantee

_TOLERANCE = 1e-6
_ALIKE = ("federation", "releases", "delta", "budget_epsilon", "simulation", "ledger_head")
"""What a document says as the private certificate does."""


def require_published(
    ledger: Ledger,
    certificate: Certificate,
    document: CertificateDocument,
    run: str | None,
    filters: Mapping[Guarantee, Filter],
) -> None:
    """Refuses a document that the ledger did not sign, or that promises more than the ledger proves.

    **Formal guarantees**: `certificate --check` shows that a document follows from the events that it lists. Whether
    these are the events that were charged only the ledger can tell: the document's promises are made anew from it, and
    none may be better, or missing. What no event implies (views, words) stays as true as its signer.

    Args:
        ledger: the books, up to the certificate's head.
        certificate: the private certificate, which was held to the ledger already.
        document: what was published.
        run: the run's name in the ledger; None for any.
        filters: the filters that the certificate names.

    Raises:
        LedgerTampered: at the first thing that does not hold.
    """
    where = f"the public certificate of {document.run}"
    if document.public_key != ledger.public_key or not signed(
        ledger.public_key, document.message(), document.signature
    ):
        raise LedgerTampered(f"{where} is not signed with the key of ledger {ledger.path}: {_ANEW}")
    for name in _ALIKE:
        if getattr(document, name) != getattr(certificate, name):
            raise LedgerTampered(
                f"{where} says {name} = {getattr(document, name)}, and the private one "
                f"{getattr(certificate, name)}: {_ANEW}"
            )
    if run is not None and document.run != run:
        raise LedgerTampered(f"{where} lies in the folder of run {run}: {_ANEW}")
    found = promises_of(ledger, certificate, document.statement, document.stopped, filters=filters)
    for one in found:
        if not any(_names(one) == _names(told) for told in document.promises):
            raise LedgerTampered(f"{where} says nothing to {_whom(one)}, and the ledger was charged for that: {_ANEW}")
    for told in document.promises:
        if not _follows(told, found):
            raise LedgerTampered(
                f"{where} promises ε = {told.epsilon} to {_whom(told)}, and ledger {ledger.path} does not prove it: "
                f"{_ANEW}"
            )


_ANEW = "it was changed, make it anew"


def _names(promise: Promise) -> tuple[str, str, str]:
    return promise.unit, promise.observer, promise.adjacency


def _whom(promise: Promise) -> str:
    return f"a {promise.unit} against the {promise.observer} ({promise.adjacency})"


def _follows(told: Promise, found: Sequence[Promise]) -> bool:
    """Returns whether a promise is no better than one that was made anew, in any number that it tells."""
    return any(_names(one) == _names(told) and _no_better(told, one) for one in found)


def _no_better(told: Promise, found: Promise) -> bool:
    mine, other = told.numbers, found.numbers
    points, theirs = (*mine.curve, *mine.profile), (*other.curve, *other.profile)
    rates, missed = mine.false_negative_rates, other.false_negative_rates
    if told.delta != found.delta or [p[0] for p in (*points, *rates)] != [p[0] for p in (*theirs, *missed)]:
        return False
    pairs = [(mine.epsilon, other.epsilon), (mine.mu, other.mu), (mine.advantage, other.advantage)]
    pairs += [(a[1], b[1]) for a, b in zip(points, theirs, strict=True)]
    honest = all(a[1] <= b[1] + _TOLERANCE for a, b in zip(rates, missed, strict=True))
    return honest and all(a is None or (b is not None and a >= b * (1 - _TOLERANCE)) for a, b in pairs)

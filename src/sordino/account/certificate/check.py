"""Checks a certificate by itself: its signature, and every number from the events that it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sordino._version import __version__
from sordino.account.certificate.document import CertificateDocument, Promise
from sordino.account.certificate.proof import Numbers, numbers
from sordino.account.ledger.heads import HeadLog
from sordino.account.ledger.keys import signed
from sordino.errors import AccountingError, LedgerError, LedgerTampered

_TOLERANCE, _OF_OTHERS = 1e-6, 1e-4
"""How far numbers may be from those that their events give; other versions may round otherwise far out."""
_LEAST = {"profile": 1e-6}
"""Below which size numbers agree absolutely, where that is not 1: a δ of 10⁻⁶ is not nothing."""
_POINTS = ("curve", "profile", "false_negative_rates")


def check(path: Path, key: str | None = None) -> Iterator[str]:
    """Yields what was checked, one sentence each; needs neither the run nor its ledger.

    Args:
        path: the certificate.
        key: the public key (hex) that must have signed it. None takes the one that it names itself, which shows that
            nothing was changed since it was signed, but not by whom: compare the key with one that you kept.

    Formal guarantees: no field can be changed without the key. Who has the key can still not write a number that does
    not follow: ε, δ, curve, μ, regret, attack rates, status and budget have to agree with the events and with each
    other. What no event implies (names, words, number of releases, what a paper claims) is as true as its signer.

    Raises:
        LedgerTampered: at the first thing that does not hold.
        LedgerError: the file is no certificate.
    """
    document = signed_document(path)
    if key is not None and key != document.public_key:
        raise LedgerTampered(f"certificate {path} names key {document.public_key[:16]}…, not the one that you gave")
    yield f"signature: nothing was changed since it was signed by key {document.public_key}"
    yield from _published(document, path)
    told = [(one.unit, one.observer, one.adjacency) for one in document.promises]
    if not told or len(set(told)) < len(told):
        raise LedgerTampered(f"certificate {path} promises nothing, or one thing twice: it was changed")
    for promise in document.promises:
        _recomputed(promise, document, path)
        found = "∞" if promise.epsilon is None else f"{promise.epsilon:.6g}"
        yield (
            f"{promise.unit} against the {promise.observer} ({promise.adjacency}): ε = {found} at δ = {promise.delta:g}"
            ", its curve and its error rates follow from the events"
        )


def signed_document(path: Path) -> CertificateDocument:
    """Returns a certificate that nobody has changed since the key that it names signed it.

    **Formal guarantees**: whoever shows a certificate shows that it is signed, so nothing else is shown. Whether its
    numbers follow from its events is for `check` to say.

    Raises:
        LedgerTampered: it was changed, or never signed.
        LedgerError: the file is no certificate.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(
            f"{path} cannot be read ({error}): let the run end, or name another certificate.json"
        ) from None
    document = CertificateDocument.from_json(text)
    _same_file(document, text, path)
    if not signed(document.public_key, document.message(), document.signature):
        raise LedgerTampered(f"certificate {path} is not signed by its key: it was changed, or never signed")
    return document


def _same_file(document: CertificateDocument, text: str, path: Path) -> None:
    """Refuses what a reader of the file would see and the signature would not cover."""
    if json.loads(text) != json.loads(document.to_json()):
        raise LedgerTampered(f"certificate {path} says more than was signed, or says it in other types: it was changed")


def _published(document: CertificateDocument, path: Path) -> Iterator[str]:
    """Looks for the ledger's head in the log of published heads, where that lies beside the certificate."""
    log = HeadLog(path.with_name("heads.jsonl"))
    if not log.path.exists():
        return
    heads = log.all()
    if not heads or not signed(document.public_key, heads[-1].message(), heads[-1].signature):
        raise LedgerTampered(f"{log.path} is not signed by the key of certificate {path}: one of them is another's")
    places = [place for place, line in enumerate(heads, 1) if line.head == document.ledger_head]
    if not places:
        raise LedgerTampered(f"{log.path} never published the head that certificate {path} names: one of them is old")
    later = len(heads) - places[-1]
    told = f", and {later} later ones: what its ledger was charged since is not in this certificate" if later else ""
    yield f"head: {document.ledger_head[:16]}… was published in {log.path.name}{told}"


def _recomputed(promise: Promise, document: CertificateDocument, path: Path) -> None:
    where = f"certificate {path}: the promise to a {promise.unit} against the {promise.observer} ({promise.adjacency})"
    allowed = {promise.adjacency} | ({"zero_out"} if promise.proof.group == 2 else set())
    if promise.proof.adjacency not in allowed or promise.proof.group not in (1, 2):
        raise LedgerTampered(f"{where} is proved for other neighbours: it was changed")
    if promise.status != _status(promise):
        raise LedgerTampered(f"{where} is called {promise.status} with ε = {promise.epsilon}: it was changed")
    if contradiction := _contradiction(promise, document):
        raise LedgerTampered(f"{where} {contradiction}: it was changed")
    try:
        found = numbers(promise.proof, promise.delta)
    except (AccountingError, LedgerError, ValueError, TypeError) as error:
        raise LedgerTampered(f"{where} cannot be recomputed: {error}") from None
    # other versions may answer by another accountant, in other words
    same = document.statement.code_version == __version__
    words, tolerance = (("answered", "note", "reason"), _TOLERANCE) if same else ((), _OF_OTHERS)
    for name in ("epsilon", "curve", "profile", "mu", "regret", "advantage", "false_negative_rates", *words):
        if not _follows(name, getattr(promise.numbers, name), getattr(found, name), tolerance):
            raise LedgerTampered(f"{where} says {name} = {_short(promise.numbers, name)}, and its events give another")


def _status(promise: Promise) -> str:
    if promise.epsilon is not None:
        return "certified"
    return "unprotected" if promise.claimed_epsilon is None else "claimed-only"


def _contradiction(promise: Promise, document: CertificateDocument) -> str:
    """Returns where a proof contradicts itself or the document; empty where it does not."""
    proof, budget = promise.proof, document.budget_epsilon
    if promise.delta != document.delta:
        return f"is made at δ = {promise.delta:g}, and the certificate at {document.delta:g}"
    if (proof.budget is None) != (proof.budget_delta is None):
        return "has half a budget"
    if proof.budget is not None and not (_agree(proof.budget, budget) and proof.budget_delta == promise.delta):
        return "rests on another budget than the run's"
    if bool(proof.filter) != (proof.filter_epsilon is not None) or bool(proof.filter) != (
        proof.filter_delta is not None
    ):
        return "names half a filter"
    if proof.filter and not (_agree(proof.filter_epsilon, budget) and proof.filter_delta == promise.delta):
        return "rests on a filter that holds another budget than the run's"
    return "lists one history twice" if len(set(map(repr, proof.histories))) < len(proof.histories) else ""


def _follows(name: str, told: Any, found: Any, tolerance: float) -> bool:
    """Returns whether a number is the one that was found, or every point of a curve, at the same places."""
    if name not in _POINTS:
        return _agree(told, found, tolerance=tolerance)
    return len(told) == len(found) and all(
        mine[0] == other[0] and _agree(mine[1], other[1], _LEAST.get(name, 1.0), tolerance)
        for mine, other in zip(told, found, strict=True)
    )


def _agree(told: Any, found: Any, least: float = 1.0, tolerance: float = _TOLERANCE) -> bool:
    if told is None or found is None:
        return told is found
    if isinstance(told, str):
        return bool(told == found)
    return bool(abs(told - found) <= tolerance * max(least, abs(found)))


def _short(numbers_: Numbers, name: str) -> str:
    text = str(getattr(numbers_, name))
    return text if len(text) < 40 else f"{text[:40]}…"

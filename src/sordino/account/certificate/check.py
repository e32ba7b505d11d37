"""Checks a certificate by itself: its signature, and every number from the events that it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sordino.account.certificate.document import CertificateDocument, Promise
from sordino.account.certificate.proof import Numbers, numbers
from sordino.account.ledger.heads import HeadLog
from sordino.account.ledger.keys import signed
from sordino.errors import AccountingError, LedgerError, LedgerTampered

_TOLERANCE = 1e-6


def check(path: Path, key: str | None = None) -> Iterator[str]:
    """Yields what was checked, one sentence each; needs neither the run nor its ledger.

    Args:
        path: the certificate.
        key: the public key (hex) that must have signed it. None takes the one that it names itself, which shows that
            nothing was changed since it was signed, but not by whom: compare the key with one that you kept.

    Raises:
        LedgerTampered: at the first thing that does not hold.
        LedgerError: the file is no certificate.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"certificate {path} cannot be read ({error}): name a certificate.json") from None
    document = CertificateDocument.from_json(text)
    _same_file(document, text, path)
    if key is not None and key != document.public_key:
        raise LedgerTampered(f"certificate {path} names key {document.public_key[:16]}…, not the one that you gave")
    if not signed(document.public_key, document.message(), document.signature):
        raise LedgerTampered(f"certificate {path} is not signed by its key: it was changed, or never signed")
    yield f"signature: nothing was changed since it was signed by key {document.public_key}"
    yield from _published(document, path)
    for promise in document.promises:
        _recomputed(promise, path)
        told = "∞" if promise.epsilon is None else f"{promise.epsilon:.6g}"
        yield (
            f"{promise.unit} against the {promise.observer} ({promise.adjacency}): ε = {told} at δ = {promise.delta:g}"
            ", its curve and its error rates follow from the events"
        )


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
    if not any(line.head == document.ledger_head for line in heads):
        raise LedgerTampered(f"{log.path} never published the head that certificate {path} names: one of them is old")
    yield f"head: {document.ledger_head[:16]}… was published in {log.path.name}"


def _recomputed(promise: Promise, path: Path) -> None:
    where = f"certificate {path}: the promise to a {promise.unit} against the {promise.observer} ({promise.adjacency})"
    allowed = {promise.adjacency} | ({"zero_out"} if promise.proof.group == 2 else set())
    if promise.proof.adjacency not in allowed or promise.proof.group not in (1, 2):
        raise LedgerTampered(f"{where} is proved for other neighbours: it was changed")
    if (promise.epsilon is not None) != (promise.status == "certified"):
        raise LedgerTampered(f"{where} is called {promise.status} with ε = {promise.epsilon}: it was changed")
    try:
        found = numbers(promise.proof, promise.delta)
    except (AccountingError, LedgerError, ValueError, TypeError) as error:
        raise LedgerTampered(f"{where} cannot be recomputed: {error}") from None
    for name in ("epsilon", "curve", "profile", "mu", "regret", "advantage", "false_negative_rates"):
        if not _agree(getattr(promise.numbers, name), getattr(found, name)):
            raise LedgerTampered(f"{where} says {name} = {_short(promise.numbers, name)}, and its events give another")


def _agree(told: Any, found: Any) -> bool:
    if told is None or found is None:
        return told is found
    if isinstance(told, tuple | list):
        return len(told) == len(found) and all(_agree(*pair) for pair in zip(told, found, strict=True))
    return bool(abs(told - found) <= _TOLERANCE * max(1.0, abs(found)))


def _short(numbers_: Numbers, name: str) -> str:
    text = str(getattr(numbers_, name))
    return text if len(text) < 40 else f"{text[:40]}…"

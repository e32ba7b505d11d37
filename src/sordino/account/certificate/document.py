"""The certificate as a document: public, signed, and complete enough to be checked by somebody who has nothing else.

It holds no client id and no private number. Where a promise to an outsider rests on nobody knowing who took part, no
participation count either: what is told about the server's view is then a bound that no coin decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sordino import strict_json
from sordino.account.certificate.certificate import PromiseStatus
from sordino.account.certificate.proof import Numbers, Proof
from sordino.account.certificate.view import View
from sordino.errors import LedgerError
from sordino.types import Adjacency, Observer, Trust, Unit

FORMAT = 2


@dataclass(frozen=True)
class Statement:
    """What a run did besides charging a ledger, in words that a reader of its certificate needs."""

    mechanism: str
    mode: str
    trust: Trust
    views: Mapping[str, View]
    sampling_assumed: str
    sampling_executed: str
    denominator: str
    noise_source: str
    arithmetic: str
    secure_sum: str
    data_accesses: tuple[str, ...]
    unprotected: tuple[str, ...]
    assumptions: tuple[str, ...]
    code_version: str
    audit: str = "none before this was signed; what `sordino audit` finds without private records is in audit.json"
    deployment: tuple[str, ...] = ()
    """Across machines: who sees what, who the members are, and what ran."""


@dataclass(frozen=True)
class Promise:
    """What is promised to one unit against one observer, and all that it follows from."""

    unit: Unit
    observer: Observer
    adjacency: Adjacency
    delta: float
    status: PromiseStatus
    numbers: Numbers
    proof: Proof
    basis: str
    """In words: whose events these are."""
    claimed_epsilon: float | None = None
    claim: str = ""

    @property
    def epsilon(self) -> float | None:
        """ε at δ; None is infinite."""
        return self.numbers.epsilon


@dataclass(frozen=True)
class CertificateDocument:
    """Everything that a run promises to the public."""

    federation: str
    run: str
    releases: int
    delta: float
    budget_epsilon: float | None
    stopped: str
    simulation: bool
    statement: Statement
    promises: tuple[Promise, ...]
    ledger_head: str
    public_key: str
    time: str
    signature: str = field(default="", compare=False)

    def message(self) -> bytes:
        """Returns the bytes that are signed: everything but the signature, in one spelling."""
        told = {"format": FORMAT} | asdict(replace(self, signature=""))
        return json.dumps(told, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def to_json(self) -> str:
        """Returns the document as JSON; infinite numbers are null."""
        return json.dumps({"format": FORMAT} | asdict(self), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CertificateDocument:
        """Inverts `to_json`.

        Raises:
            LedgerError: it is no such document, or one of a later version.
        """
        try:
            fields = strict_json.loads(text)
            if not isinstance(fields, dict):
                raise ValueError("no JSON object")
            found = fields.pop("format")
            if found != FORMAT:
                raise LedgerError(
                    f"the certificate has format {found}, and this version reads {FORMAT}: use its sordino"
                )
            made = _READER.validate_python(fields)
            missing = {one.observer for one in made.promises} - made.statement.views.keys()
            if missing:
                raise ValueError(f"statement.views has no {min(missing)}")
            return made
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
            what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise LedgerError(f"the certificate cannot be read ({what}): make it anew from its ledger") from None

    def promise(self, unit: str, observer: str, adjacency: str | None = None) -> Promise:
        """Returns the promise to this unit against this observer (the first, or the one of that adjacency)."""
        for one in self.promises:
            if (one.unit, one.observer) == (unit, observer) and adjacency in (None, one.adjacency):
                return one
        raise LedgerError(f"the certificate promises nothing to a {unit} against the {observer}")

    def __str__(self) -> str:
        from sordino.account.certificate.text import text

        return text(self)


_READER: TypeAdapter[CertificateDocument] = TypeAdapter(CertificateDocument)


def entries_of(document: CertificateDocument) -> tuple[Mapping[str, Any], ...]:
    """Returns the promises as flat entries, as a private certificate has them, for pages and tables."""
    return tuple(
        {
            "unit": one.unit,
            "observer": one.observer,
            "adjacency": one.adjacency,
            "epsilon": one.epsilon,
            "delta": one.delta,
            "status": one.status,
            "accountant": one.numbers.answered,
            "reason": one.numbers.reason,
            "note": "; ".join(filter(None, [one.basis, one.numbers.note])),
            "claimed_epsilon": one.claimed_epsilon,
            "claim": one.claim,
            "curve": [list(point) for point in one.numbers.curve],
            "sees": list(document.statement.views[one.observer].words()),
            "attack": asdict(one.numbers),
        }
        for one in document.promises
    )

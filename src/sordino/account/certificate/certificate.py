"""The certificate: for each unit and observer, what is proved, what is only claimed, and for whom.

A number is `certified` when it follows from what really bounds the releases; `claimed-only` when a paper's formula
gives a number and nothing proves it; `unprotected` when there is neither. The reason is always in words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from sordino import strict_json
from sordino.account.accountants.accountant import Curve, require_delta
from sordino.account.accountants.filter import Filter
from sordino.account.certificate.proof import CURVE_DELTAS, FILTERED, finite, taken_out
from sordino.account.ledger.book import Book
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.entry import now
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError
from sordino.events import Guarantee
from sordino.types import Adjacency, Observer, Unit

FORMAT = 1
NEAR = 0.9
"""A client is near its limit from this share of its budget on."""

_Read = TypeVar("_Read")

PromiseStatus = Literal["certified", "claimed-only", "unprotected"]


@dataclass(frozen=True)
class ClaimedEpsilon:
    """What a paper's own formula says, and the words for why it may not hold."""

    epsilon: float
    formula: str = ""


@dataclass(frozen=True)
class WorstClient:
    """The client that paid most."""

    client: int
    epsilon: float | None
    participations: int


@dataclass(frozen=True)
class Assurance:
    """What is promised to one unit against one observer. An ε of None is infinite."""

    unit: Unit
    observer: Observer
    adjacency: Adjacency
    epsilon: float | None
    delta: float
    status: PromiseStatus
    accountant: str
    reason: str
    note: str
    claimed_epsilon: float | None
    claim: str
    curve: tuple[tuple[float, float | None], ...]
    worst: WorstClient
    median_epsilon: float | None
    near_limit: int | None


@dataclass(frozen=True)
class Certificate:
    """Everything a run promises, and the state of the ledger from which that follows."""

    federation: str
    population: int
    releases: int
    runs: tuple[str, ...]
    delta: float
    budget_epsilon: float | None
    accountant: str
    """The accountant asked for; each entry names who answered."""
    stopped_by_participation: bool
    early_end: float
    """The chance, taken out of an outsider's δ, that one client's coins decided when the run ended."""
    simulation: bool
    ledger_head: str
    time: str
    entries: tuple[Assurance, ...]

    def entry(self, unit: str, observer: str) -> Assurance:
        """Returns the promise to this unit against this observer."""
        for entry in self.entries:
            if (entry.unit, entry.observer) == (unit, observer):
                return entry
        raise LedgerError(f"the certificate promises nothing to a {unit} against the {observer}")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Shows in a notebook what `print` shows."""
        printer.text("…" if cycle else str(self))

    def __str__(self) -> str:
        """Returns a line for each promise; `Outcome.document` is the certificate to publish."""
        told = [f"Certificate of {self.federation}: {self.releases} releases, δ = {self.delta:g}"]
        told += ["simulation: the noise is seeded"] if self.simulation else []
        for entry in self.entries:
            epsilon = "∞" if entry.epsilon is None else f"{entry.epsilon:.5g}"
            who = f"{entry.unit} against the {entry.observer} ({entry.adjacency})"
            told.append(f"  {who}: {entry.status}, ε = {epsilon}" + (f"; {entry.reason}" if entry.reason else ""))
            if entry.claimed_epsilon is not None:
                told.append(f"    claimed ε = {entry.claimed_epsilon:.5g} by {entry.claim or 'a published formula'}")
        return "\n".join(told)

    def to_json(self) -> str:
        """Returns the certificate as JSON; infinite numbers are null."""
        return json.dumps({"format": FORMAT} | asdict(self), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Inverts `to_json`.

        Raises:
            LedgerError: it is no such certificate, one of a later version, or holds what is no number.
        """
        try:
            fields = dict(strict_json.loads(text))
            if (found := fields.pop("format")) > FORMAT:
                raise LedgerError(
                    f"the certificate has format {found}, and this version reads up to {FORMAT}: upgrade sordino"
                )
            return _read(cls, fields | {"entries": [_read(Assurance, entry) for entry in fields["entries"]]})
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerError(f"the certificate cannot be read ({error}): make it anew from its ledger") from error


def certify(
    ledger: Ledger,
    delta: float,
    *,
    guarantees: Iterable[Guarantee] | None = None,
    claims: Mapping[Guarantee, ClaimedEpsilon] | None = None,
    budget: Budget | None = None,
    filters: Mapping[Guarantee, Filter] | None = None,
    stopped_by_participation: bool = False,
    early_end: float = 0.0,
    accountant: str = "pld",
    simulation: bool = False,
) -> Certificate:
    """Returns what the ledger proves at δ.

    Args:
        ledger: the books, over all runs of the federation.
        delta: the δ of the headline numbers.
        guarantees: which promises; None for all that were charged.
        claims: what papers claim, by guarantee.
        budget: the limits, to count who is near them.
        filters: for guarantees whose noise followed released values: the filter that admitted the releases. What is
            certified then is the filter's promise, not the price of the path taken.
        stopped_by_participation: the run ended because too few clients were left by their own participations. That
            end depends on secret coins, so an outsider is promised what the server is, without amplification.
        early_end: for runs that could have ended so and did not, the chance of it (`account.leaving`), and 1 where
            another run on the ledger did; it is taken out of an outsider's δ.
        accountant: who prices.
        simulation: stamped on the certificate: whoever knows the seed can repeat the noise. It is stamped in any case
            where noise of some release on the ledger follows from a seed: the promise is about all of them together.
    """
    require_delta(delta)
    wanted = list(ledger.guarantees if guarantees is None else guarantees)
    made = {
        guarantee: _assure(ledger, guarantee, delta, budget, (filters or {}).get(guarantee), accountant, early_end)
        for guarantee in dict.fromkeys([*wanted, *ledger.guarantees])
    }
    if stopped_by_participation or early_end >= delta:
        made |= {guarantee: _as_server(made, guarantee) for guarantee in made if guarantee.observer == "outsider"}
    return Certificate(
        federation=ledger.federation,
        population=ledger.population,
        releases=sum(bool(entry.charges) for entry in ledger.entries),
        runs=tuple(dict.fromkeys(entry.run for entry in ledger.entries)),
        delta=delta,
        budget_epsilon=budget.epsilon if budget else None,
        accountant=accountant,
        stopped_by_participation=stopped_by_participation,
        early_end=early_end,
        simulation=simulation or any(entry.seeded for entry in ledger.entries),
        ledger_head=ledger.head,
        time=now(),
        entries=tuple(_judge(made[guarantee], (claims or {}).get(guarantee)) for guarantee in wanted),
    )


def _assure(
    ledger: Ledger,
    guarantee: Guarantee,
    delta: float,
    budget: Budget | None,
    chosen: Filter | None,
    accountant: str,
    early_end: float,
) -> Assurance:
    book, participations = ledger.book(guarantee), ledger.participations
    prices = book.prices(delta, accountant).epsilon
    client, curve = book.ceiling(delta, accountant)
    if chosen is not None:
        curve = _filtered(book, chosen, curve.reason)
        prices = np.full(ledger.population, curve.epsilon(delta))
    if guarantee.observer == "outsider" and 0 < early_end < delta:
        curve = taken_out(curve, early_end)
    lost, why = ledger.unpromised(guarantee)
    if why:
        client, prices = int(np.argmax(lost)), np.where(lost, np.inf, prices)
        words = "; ".join(filter(None, [curve.reason, why]))
        curve = Curve(curve.accountant, lambda delta: math.inf, lambda epsilon: 1.0, reason=words)
    worst = curve.epsilon(delta)
    limits = ledger.limits(budget) if budget else None
    return Assurance(
        unit=guarantee.unit,
        observer=guarantee.observer,
        adjacency=guarantee.adjacency,
        epsilon=finite(worst),
        delta=delta,
        status="certified",
        accountant=curve.accountant,
        reason=curve.reason or "",
        note=curve.note,
        claimed_epsilon=None,
        claim="",
        curve=tuple((d, finite(curve.epsilon(d))) for d in CURVE_DELTAS),
        worst=WorstClient(client, finite(worst), int(participations[client])),
        median_epsilon=finite(float(np.median(prices))),
        near_limit=None if limits is None else int(np.count_nonzero(prices >= NEAR * limits)),
    )


def _filtered(book: Book, chosen: Filter, unbounded: str | None) -> Curve:
    if not book.admitted(chosen, np.full(book.population, chosen.epsilon)).all():
        words = unbounded or f"more was released than the {chosen.name} admits"
        return Curve(chosen.name, lambda delta: math.inf, lambda epsilon: 1.0, reason=words)
    reason = _UNHELD if math.isinf(chosen.epsilon) else None
    return Curve(chosen.name, chosen.promised, lambda epsilon: 1.0, FILTERED, reason)


_UNHELD = "the noise of a run on this ledger followed what it released, and no budget holds this run and that one"


def _as_server(made: Mapping[Guarantee, Assurance], guarantee: Guarantee) -> Assurance:
    """Returns the outsider's promise when the end of the run shows who took part: no better than the server's."""
    outsider = made[guarantee]
    servers = [made[other] for other in made if other.observer == "server" and other.unit == guarantee.unit]
    why = "a run ended, or could have, because too few clients were left: that shows who took part, so no coin counts"
    if not servers:
        return Assurance(
            **vars(outsider) | {"epsilon": None, "reason": f"{why}, and nothing is promised against the server"}
        )
    server = min(servers, key=lambda entry: math.inf if entry.epsilon is None else entry.epsilon)
    return Assurance(**vars(server) | {"observer": "outsider", "note": "; ".join(filter(None, [why, server.note]))})


def _judge(entry: Assurance, claim: ClaimedEpsilon | None) -> Assurance:
    proved: PromiseStatus = "certified" if entry.epsilon is not None else "claimed-only" if claim else "unprotected"
    told = {"claimed_epsilon": finite(claim.epsilon), "claim": claim.formula} if claim else {}
    return Assurance(**vars(entry) | {"status": proved} | told)


def _read(kind: type[_Read], fields: Mapping[str, Any]) -> _Read:
    """Returns a dataclass of these fields, each of the kind that it is declared to be."""
    kind(**fields)  # names that it has not, or lacks
    try:
        return TypeAdapter(kind).validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

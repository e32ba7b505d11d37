"""One release as the books hold it, and how it is written to a row of the chain and read back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sordino.account.accountants.accountant import epsilon
from sordino.account.accountants.exact import separation
from sordino.account.accountants.history import flatten
from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.cohort import Cohort
from sordino.errors import LedgerError
from sordino.events import Charge, Guarantee, decode, encode


class RunLimit(NamedTuple):
    """The budget that a run was held to; an ε of None binds nobody."""

    epsilon: float | None
    delta: float


@dataclass(frozen=True)
class LedgerEntry:
    """One release: as reserved, and after settlement as it really was."""

    seq: int
    run: str
    round_: int
    participants: Cohort
    excluded: Cohort
    charges: tuple[Charge, ...]
    repeatable: bool = False
    fingerprint: str = ""
    time: str = ""
    costs: tuple[float | None, ...] = ()
    """ε of each charge alone, at the ledger's δ (None when infinite)."""
    settled: bool = False
    digest: str = ""
    early_end: float = 0.0
    """The chance, as known when it was reserved, that coins decide when its run ends; 1 for a run that ended so."""
    adaptive: bool = False
    """Whether noise or sampling of its run follow what the run released, so that a filter has to hold it."""
    limit: RunLimit | None = None
    """The budget of its run, which a filter's promise rests on; None where nobody wrote it down."""

    @property
    def seeded(self) -> bool:
        """Whether something was released, or may have been, with noise that follows from a seed."""
        return self.repeatable and bool(self.charges)

    def same_release(self, other: LedgerEntry) -> bool:
        """Returns whether both describe the same bits: the same run, round, clients, charges, seed and data."""
        mine, theirs = self.excluded, other.excluded
        known = max(mine.population, theirs.population)
        return (
            (self.run, self.round_, self.fingerprint) == (other.run, other.round_, other.fingerprint)
            and self.charges == other.charges
            and np.array_equal(self.participants.ids(), other.participants.ids())
            and np.array_equal(mine.rest(known), theirs.rest(known))
        )


def reserve_row(entry: LedgerEntry, delta: float) -> LedgerRow:
    """Returns the row that reserves an entry."""
    body = {
        "run": entry.run,
        "round": entry.round_,
        "charges": records(entry.charges),
        "delta": delta,
        "costs": entry.costs,
        "repeatable": entry.repeatable,
        "fingerprint": entry.fingerprint,
        "early_end": entry.early_end,
        "adaptive": entry.adaptive,
        "time": entry.time,
    }
    if entry.limit is not None:
        body["limit"] = entry.limit
    return LedgerRow(entry.seq, "reserve", canonical(body), entry.participants.pack(), entry.excluded.pack())


def read_reserve(row: LedgerRow, population: int) -> LedgerEntry:
    """Inverts `reserve_row`."""
    body = json.loads(row.body)
    return LedgerEntry(
        seq=row.seq,
        run=body["run"],
        round_=body["round"],
        participants=Cohort.unpack(row.cohort or b"", population),
        excluded=Cohort.unpack(row.excluded or b"", population),
        charges=tuple(map(charge_of, body["charges"])),
        repeatable=body["repeatable"],
        fingerprint=body["fingerprint"],
        time=body["time"],
        costs=tuple(body["costs"]),
        early_end=float(body.get("early_end", 1.0)),  # what earlier versions did not write down is not assumed
        adaptive=bool(body.get("adaptive", True)),
        limit=RunLimit(*body["limit"]) if "limit" in body else None,
    )


def settle_row(seq: int, realised: LedgerEntry, everybody: bool) -> LedgerRow:
    """Returns the row that settles a reservation: `everybody` whom it names sent, or those who are named here."""
    body = {
        "reservation": realised.seq,
        "charges": records(realised.charges),
        "costs": realised.costs,
        "digest": realised.digest,
        "time": now(),
    }
    return LedgerRow(seq, "settle", canonical(body), None if everybody else realised.participants.pack())


def read_settle(row: LedgerRow, body: Mapping[str, Any], quoted: LedgerEntry, population: int) -> LedgerEntry:
    """Inverts `settle_row`: the release that was reserved, as it really was.

    Raises:
        LedgerError: it was sent by clients whom the reservation does not name, or tells what nothing released was.
    """
    sent = quoted.participants if row.cohort is None else Cohort.unpack(row.cohort, population)
    if sent is not quoted.participants and not np.all(quoted.participants.contains(sent.ids())):
        raise LedgerError(f"reservation {quoted.seq} is settled with clients that it did not name")
    charges = tuple(map(charge_of, body["charges"]))
    if body["digest"] and not charges:
        raise LedgerError(f"reservation {quoted.seq} is settled as nothing, with a digest of what was released")
    return replace(
        quoted,
        participants=sent,
        charges=charges,
        costs=tuple(body["costs"]),
        settled=True,
        digest=body["digest"],
    )


def costs_of(charges: Sequence[Charge], delta: float) -> tuple[float | None, ...]:
    """Returns ε of each charge alone, None when it is infinite.

    Priced by the closed form for plain Gaussians and by Rényi divergences otherwise: these are cheap enough to be asked
    in every round, and give the same digits on every machine.
    """
    return tuple(_cost_of(charge, delta) for charge in charges)


@lru_cache(1024)
def _cost_of(charge: Charge, delta: float) -> float | None:
    accountant = "rdp" if separation(flatten(charge.event)) is None else "exact"
    cost = epsilon(charge.event, delta, accountant, charge.guarantee.adjacency)
    return cost if math.isfinite(cost) else None


def normal(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    """Returns the charges as they will be read back, so that comparing and hashing them is safe."""
    for charge in charges:
        if charge.payers not in ("participants", "eligible"):
            raise LedgerError(f"payers {charge.payers!r} is unknown: choose 'participants' or 'eligible'")
    try:
        return tuple(map(_normal, charges))
    except TypeError:  # a list in an event, which becomes a tuple
        return tuple(_normal.__wrapped__(charge) for charge in charges)


@lru_cache(1024)
def _normal(charge: Charge) -> Charge:
    return charge_of(json.loads(canonical(_record.__wrapped__(charge))))


def records(charges: Sequence[Charge]) -> list[Mapping[str, Any]]:
    """Returns charges (as `normal` returns them) as plain JSON."""
    return list(map(_record, charges))


@lru_cache(1024)
def _record(charge: Charge) -> Mapping[str, Any]:
    return {
        "unit": charge.guarantee.unit,
        "observer": charge.guarantee.observer,
        "adjacency": charge.guarantee.adjacency,
        "payers": charge.payers,
        "event": encode(charge.event),
    }


def charge_of(record: Mapping[str, Any]) -> Charge:
    """Inverts one of `records`."""
    guarantee = Guarantee(record["unit"], record["observer"], record["adjacency"])
    return Charge(guarantee, decode(record["event"]), record["payers"])


_SPELLED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """Returns JSON with one spelling, so that a hash of it means something."""
    return _SPELLED.encode(value)


def now() -> str:
    """Returns the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")

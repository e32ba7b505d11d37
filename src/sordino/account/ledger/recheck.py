"""Every number that a ledger wrote down, computed again from the events: reservations and settlements alike."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.entry import charge_of, costs_of
from sordino.account.ledger.settlement import refuse_dearer
from sordino.account.ledger.state import readable
from sordino.errors import LedgerTampered
from sordino.events import Charge


class _Quote(NamedTuple):
    told: list[dict[str, Any]]
    charges: tuple[Charge, ...]
    costs: tuple[float | None, ...]


def recheck(path: Path, rows: Sequence[LedgerRow], delta: float) -> None:
    """Reprices every row, and holds every settlement against its reservation.

    Raises:
        LedgerTampered: naming the first row that does not hold.
    """
    quoted: dict[int, _Quote] = {}
    for row in rows:
        if row.kind not in ("reserve", "settle"):
            continue
        with readable(path, row.seq):
            body = json.loads(row.body)
            before = quoted.get(body["reservation"]) if row.kind == "settle" else None
            if before is not None and before.told == body["charges"]:
                priced = before
            else:
                charges = tuple(map(charge_of, body["charges"]))
                priced = _Quote(body["charges"], charges, costs_of(charges, delta))
            _compare(path, row.seq, body, priced.costs, delta)
            if row.kind == "reserve":
                quoted[row.seq] = priced
            else:
                refuse_dearer(quoted[body["reservation"]].charges, priced.charges, body["reservation"])


def _compare(path: Path, seq: int, body: Mapping[str, Any], found: Sequence[float | None], delta: float) -> None:
    if body.get("delta", delta) != delta:
        raise LedgerTampered(f"ledger {path}: row {seq} is priced at δ = {body['delta']}, the ledger at {delta}")
    if len(found) != len(body["costs"]) or not all(_agree(*pair) for pair in zip(found, body["costs"], strict=True)):
        raise LedgerTampered(f"ledger {path}: row {seq} states ε {body['costs']}, its events give {found}")


def _agree(found: float | None, stated: float | None) -> bool:
    if found is None or stated is None:
        return found is stated
    return abs(found - stated) <= 1e-6 * max(1.0, stated)

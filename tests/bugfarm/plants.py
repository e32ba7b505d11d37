"""Mistakes around a release that a hostile review found, planted again, and the game that has to find each."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.account.ledger import hash_chain, heads, ledger, reading, sqlite, state
from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.clients import ClientRegister
from sordino.account.ledger.hash_chain import HashChain
from sordino.account.ledger.holders import Holdings
from sordino.events import Charge, DpEvent, Guarantee
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.shares import GaussianShares
from sordino.runs import beginning, folder, round_end, run, setup
from sordino.runs.context import RunContext
from sordino.select.fixed import FixedSize
from sordino.server import charging
from sordino.server.charging import Charging
from sordino.stages import Summed
from sordino.terms import Turn

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Plant:
    """A mistake in the product, and the game that finds it."""

    finding: str
    """Its name in docs/review.md."""
    story: str
    game: str
    plant: Callable[[Patch], None]
    forgery: str = ""
    """For the game of forgetting: what somebody does to the books."""

    @property
    def name(self) -> str:
        return self.plant.__name__.strip("_")


# cohorts


def _displaces_for_free(patch: Patch) -> None:
    """F1: who leaves gives its place to another, and the price is that of its own update."""

    def select(self: FixedSize, turn: Turn, eligible: Any) -> Any:
        ids = np.flatnonzero(eligible)
        drawn = turn.randomness.generator("select", turn.round_).choice(ids, min(self.size, len(ids)), replace=False)
        return np.sort(drawn)

    def charge(self: FixedSize, guarantee: Guarantee, event: DpEvent) -> Charge:
        return Charge(guarantee, event, "eligible")

    patch.setattr(FixedSize, "select", select)
    patch.setattr(FixedSize, "charge", charge)


def _silent_when_empty(patch: Patch) -> None:
    """F6: a cohort in which nobody is adds no noise."""
    for shares in (GaussianShares, IntegerShares):
        patch.setattr(shares, "_completed", lambda self, summed, turn: _as_if_noisy(summed, turn))


def _as_if_noisy(summed: Summed, turn: Turn) -> Summed:
    return replace(summed, squared_multiplier=turn.knobs.noise_multiplier**2) if summed.empty else summed


def _aborts_when_empty(patch: Patch) -> None:
    """F6: a cohort in which nobody is aborts its round, which everybody sees."""
    from sordino.aggregate import plain
    from sordino.errors import ProtocolError

    def require(survivors: int, cohort: int, tolerance: float | None, fewest: int = 0) -> None:
        if not survivors:
            raise ProtocolError("nobody was asked")

    patch.setattr(plain, "require", require)


def _amplifies_rounds_that_abort(patch: Patch) -> None:
    """F6: coins are credited although an aborted round shows them."""
    from sordino.perturb import shares

    real = shares.prices
    patch.setattr(shares, "prices", lambda *args: real(*args[:5]))


# streams, ends


def _streams_by_seed(patch: Patch) -> None:
    """F4: streams are named by the seed alone, and no ledger asks whose noise it is."""
    patch.setattr(state.LedgerState, "lent", lambda self, entry: None)
    patch.setattr(beginning, "stream_name", lambda context, ledger, own: f"seed {context.recipe.run.seed}")


def _stops_at_the_price_of_the_path(patch: Patch) -> None:
    """F8: a stop at a target costs the rounds that were played."""
    patch.setattr(Charging, "forfeit", lambda self, round_: None)


def _ends_for_free(patch: Patch) -> None:
    """F9: coins that decide when a run ends are credited all the same."""
    patch.setattr(charging, "chance_of_early_end", lambda *args: 0.0)


# files


def _measures_public_facts(patch: Patch) -> None:
    """F2: what is declared is replaced by what the data hold."""

    def declared(recipe: Any, federation: Any) -> Any:
        return replace(federation, declared=federation.declared.plus(federation.proposed()))

    patch.setattr(setup, "declared", declared)


def _publishes_losses(patch: Patch) -> None:
    """F7: exact losses on clients' own test records are logged in public."""
    told = round_end.released
    patch.setattr(round_end, "released", lambda metrics, mechanism, with_scores: told(metrics, mechanism, True))


def _publishes_counts(patch: Patch) -> None:
    """F10: public metrics hold the size of every cohort."""
    patch.setattr(round_end, "released", lambda metrics, mechanism, with_scores: {**metrics, "loss": None})


def _publishes_who_paid_most(patch: Patch) -> None:
    """F10: the certificate with ids and participations is the public one."""

    def save(self: folder.RunFolder, certificate: Any, document: Any) -> None:
        told = document.to_json().rstrip().removesuffix("}")
        text = f'{told}, "private": {certificate.to_json()}}}'
        folder.replace_file(self.certificate_file, text.encode(), folder.PUBLIC)

    patch.setattr(folder.RunFolder, "save_certificate", save)


def _publishes_a_digest(patch: Patch) -> None:
    """F11: an unsalted hash of all records is published."""
    real = run.statement_of

    def statement(context: RunContext) -> Any:
        told = real(context)
        return replace(told, data_accesses=(*told.data_accesses, f"records {context.federation.digest}"))

    patch.setattr(run, "statement_of", statement)


def _everything_is_readable(patch: Patch) -> None:
    """L6: private files are 0644 and their folders 0755, and nobody looks."""
    patch.setattr(folder, "PRIVATE", 0o644)
    patch.setattr(folder.RunFolder, "_require_own", lambda self: None)


# books


def _no_heads(patch: Patch) -> None:
    for module in (ledger, heads):
        patch.setattr(module, "check_last", lambda *args: None)
    patch.setattr(reading, "check_all", lambda *args: None)
    patch.setattr(ledger, "refuse_remains", lambda *args: None)
    patch.setattr(ledger.Ledger, "must_contain", lambda self, head: None)


def _resumes_with_a_new_ledger(patch: Patch) -> None:
    """L1: a run whose ledger is gone begins another one."""
    _no_heads(patch)
    real = run.charging_for
    patch.setattr(run, "charging_for", lambda *args, **more: real(*args, **more | {"create": True}))


def _knows_no_heads(patch: Patch) -> None:
    """L1, L5, L7: nothing is held against what was published, or against a checkpoint."""
    _no_heads(patch)


def _believes_settlements(patch: Patch) -> None:
    """L5: settlements are never held against their reservations."""
    _no_heads(patch)
    patch.setattr(reading, "recheck", lambda *args: None)


def _reads_without_the_log(patch: Patch) -> None:
    """L3: a reader opens the file as immutable, and ignores the write-ahead log."""
    _no_heads(patch)

    def connect(path: Path, *, write: bool) -> tuple[sqlite3.Connection, None]:
        if write:
            return sqlite._connect(path), None
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False), None

    patch.setattr(hash_chain, "connect", connect)


def _trusts_the_file(patch: Patch) -> None:
    """L4: neither tables nor rows are checked while the ledger is open, nor read back; nor are heads."""
    _no_heads(patch)
    for check in ("_require_schema", "_require_kept", "_require_end"):
        patch.setattr(HashChain, check, lambda self, *args: None)

    def append(self: HashChain, row: LedgerRow) -> LedgerRow:
        _, previous = self._pending or self._checked
        link = row.chained(previous, self._salt)
        values = (row.seq, row.kind, row.body, row.cohort, row.excluded, link)
        self._connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", values)
        self._connection.execute("UPDATE head SET seq = ?, hash = ?", (row.seq, link))
        self._pending = (row.seq, link)
        return row

    patch.setattr(HashChain, "append", append)


def _forgets_holders(patch: Patch) -> None:
    """F5: nobody looks who holds what."""
    patch.setattr(Holdings, "check", lambda self, holders, members, key, population: (members[:0], b"", "each"))


def _knows_rows_not_names(patch: Patch) -> None:
    """U2: clients are known by their row."""
    real = ClientRegister.find
    patch.setattr(ClientRegister, "find", lambda self, clients, key: real(self, len(clients), key))


PLANTS: tuple[Plant, ...] = (
    Plant("F1", "displacement at the price of absence", "displaced-cohorts", _displaces_for_free),
    Plant("F2", "public facts measured on the data", "published-files", _measures_public_facts),
    Plant("F4", "streams named by the seed alone", "shared-streams", _streams_by_seed),
    Plant("F5", "records dealt out anew on one ledger", "forgetting", _forgets_holders, "records dealt out anew"),
    Plant("F6", "no noise where nobody took part", "empty-rounds", _silent_when_empty),
    Plant("F6", "an aborted round where nobody took part", "empty-rounds", _aborts_when_empty),
    Plant("F6", "coins credited where rounds abort", "aborted-rounds", _amplifies_rounds_that_abort),
    Plant("F7", "exact losses on clients' test records", "published-files", _publishes_losses),
    Plant("F8", "a stop at the price of the path", "stopping-times", _stops_at_the_price_of_the_path),
    Plant("F9", "coins credited that end a run", "early-ends", _ends_for_free),
    Plant("F10", "cohort sizes in public metrics", "published-files", _publishes_counts),
    Plant("F10", "who paid most, in public", "published-files", _publishes_who_paid_most),
    Plant("F11", "an unsalted digest of the records", "published-files", _publishes_a_digest),
    Plant(
        "L1",
        "a new ledger for a run that goes on",
        "forgetting",
        _resumes_with_a_new_ledger,
        "ledger lost while a run is interrupted",
    ),
    Plant("L1", "an older copy of the ledger", "forgetting", _knows_no_heads, "older copy of the ledger"),
    Plant(
        "L3",
        "a reader without the write-ahead log",
        "forgetting",
        _reads_without_the_log,
        "a reader without the write-ahead log",
    ),
    Plant("L4", "triggers that swallow rows", "forgetting", _trusts_the_file, "triggers that swallow rows"),
    Plant(
        "L5",
        "settlements rewritten to nothing",
        "forgetting",
        _believes_settlements,
        "settlements rewritten to nothing",
    ),
    Plant("L5", "last rows cut off", "forgetting", _knows_no_heads, "last rows cut off"),
    Plant("L6", "private files that everybody may read", "published-files", _everything_is_readable),
    Plant("L7", "a write-ahead log cut short", "forgetting", _knows_no_heads, "write-ahead log cut short"),
    Plant("U2", "clients known by their row", "forgetting", _knows_rows_not_names, "clients in another order"),
)
"""Every finding of docs/review.md that an audit game finds."""

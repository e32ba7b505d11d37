"""Certificates and ledgers for people: tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from sordino.account.certificate.certificate import Assurance, Certificate

_STYLE = {"certified": "green", "claimed-only": "yellow", "unprotected": "red"}


def certificate(told: Certificate) -> RenderableType:
    """Returns the readable certificate."""
    about = f"Certificate of {told.federation}: {told.releases} releases, {told.population} clients, δ = {told.delta:g}"
    table = Table(title=about, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("unit", "observer", "adjacency", "status"):
        table.add_column(column)
    for column in ("ε", "claimed ε"):
        table.add_column(column, justify="right")
    for entry in told.entries:
        table.add_row(*_cells(entry))
    lines = [Text(f"{entry.unit}/{entry.observer}: {line}") for entry in told.entries for line in _words(entry)]
    stamp = "simulation: the noise is seeded; " if told.simulation else ""
    return Group(table, *lines, Text(f"{stamp}ledger {told.ledger_head[:16]}…", style="dim"))


def _cells(entry: Assurance) -> Iterator[str | Text]:
    yield entry.unit
    yield entry.observer
    yield entry.adjacency
    yield Text(entry.status, style=_STYLE[entry.status])
    yield number(entry.epsilon)
    yield "" if entry.claimed_epsilon is None else number(entry.claimed_epsilon)


def _words(entry: Assurance) -> Iterator[str]:
    if entry.epsilon is not None:
        near = "" if entry.near_limit is None else f"; {entry.near_limit} clients are near their limit"
        yield (
            f"worst client {entry.worst.client} ({entry.worst.participations} rounds), "
            f"median client ε {number(entry.median_epsilon)}{near}; by {entry.accountant}"
        )
    if entry.reason:
        yield f"ε is infinite: {entry.reason}"
    if entry.claimed_epsilon is not None:
        yield f"the claim is {entry.claim or 'a published formula'}"
    if entry.note:
        yield entry.note


def number(value: float | None) -> str:
    """Returns an ε in five digits, ∞ for None."""
    return "∞" if value is None else f"{value:.5g}"

"""Certificates for people: the short form, as tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sordino.account.certificate.text import number
from sordino.printable import printable

if TYPE_CHECKING:
    from sordino.account.certificate.document import CertificateDocument, Promise

_NARROW = 70
"""Columns of a terminal that the table of a certificate needs, with its claims."""
_STYLE = {"certified": "green", "claimed-only": "yellow", "unprotected": "red"}


def certificate(told: CertificateDocument, width: int = 80) -> RenderableType:
    """Returns a certificate in short; `sordino certificate RUN` prints all of it.

    **Edge cases**: where its table would be cut off, a line says each promise.
    """
    about = Text(printable(f"Certificate of {told.federation}: {told.releases} releases, δ = {told.delta:g}"))
    table = Table(title=about, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("unit", "observer", "adjacency", "status"):
        table.add_column(column)
    claims = any(one.claimed_epsilon is not None for one in told.promises)
    for column in ("ε", "μ", *(["claimed ε"] if claims else [])):
        table.add_column(column, justify="right")
    for one in told.promises:
        table.add_row(*list(_cells(one))[: len(table.columns)])
    narrow = width < _NARROW
    promised = [about, *(Text(_in_words(one)) for one in told.promises)] if narrow else [table]
    lines = [Text(printable(line)) for line in _told_once(told.promises)]
    if told.simulation:
        lines.append(Text(_SEEDED, style="yellow"))
    if told.statement.trust == "distributed":
        played = (told.statement.secure_sum or "").split(";")[0]
        lines.append(Text(printable(f"secure sum: {played} (`sordino certificate` says what it withstands)")))
    head = f"ledger {told.ledger_head[:16]}…, signed by {told.public_key[:16]}…"
    return Group(*promised, *lines, Text(head, style="dim"))


_SEEDED = "simulation: the noise came from a seed, so certified numbers hold for the same run with unseeded noise"


def _in_words(one: Promise) -> str:
    claimed = "" if one.claimed_epsilon is None else f", claimed ε {number(one.claimed_epsilon)}"
    against = f"{one.unit} against the {one.observer} ({one.adjacency})"
    return f"· {against}: {one.status}, ε = {number(one.epsilon)}, μ = {number(one.numbers.mu)}{claimed}"


def _cells(one: Promise) -> Iterator[str | Text]:
    yield one.unit
    yield one.observer
    yield one.adjacency
    yield Text(one.status, style=_STYLE[one.status])
    yield number(one.epsilon)
    yield number(one.numbers.mu)
    yield "" if one.claimed_epsilon is None else number(one.claimed_epsilon)


def _told_once(promises: Sequence[Promise]) -> Iterator[str]:
    """Yields what is to be said of promises; what holds for several of them names them all."""
    whom = dict[str, list[str]]()
    for one in promises:
        for words in _words(one):
            whom.setdefault(words, []).append(f"{one.unit}/{one.observer}/{one.adjacency}")
    for words, names in whom.items():
        yield words if len(names) == len(promises) else f"{', '.join(dict.fromkeys(names))}: {words}"


def _words(one: Promise) -> Iterator[str]:
    if one.epsilon is None:
        yield f"ε is infinite: {one.numbers.reason}"
    else:
        yield f"{one.basis}; accountant {one.numbers.answered}"
    if one.claimed_epsilon is not None:
        yield f"the claim is {one.claim or 'a published formula'}"
    if one.numbers.note:
        yield one.numbers.note

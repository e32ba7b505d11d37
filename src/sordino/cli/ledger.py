"""`sordino ledger`: every release, who paid, what it cost; and whether the books were touched."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import strict_json
from sordino.cli.idle import refuse_options
from sordino.cli.shown import shown, terminal

if TYPE_CHECKING:
    from rich.table import Table

    from sordino.account.certificate.certificate import Certificate
    from sordino.account.certificate.document import CertificateDocument
    from sordino.account.ledger.listing import LedgerLine


def ledger(
    run: Annotated[Path, typer.Argument(help="run folder, or ledger file")],
    client: Annotated[str | None, typer.Option(help="only what the client of this name paid, with its sum")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="check rows, published heads and every ε")] = False,
    witness: Annotated[Path | None, typer.Option(help="another file to which heads were published")] = None,
    heads: Annotated[Path | None, typer.Option(help="a copy of the ledger's head log")] = None,
    head: Annotated[list[str] | None, typer.Option(help="a head that you kept; may be repeated")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """List every release, or verify that nothing was changed, cut off, rolled back or rewritten.

    RUN is a run folder, or a ledger file.
    """
    if verify:
        refuse_options(("client",), "beside --verify, which checks everybody's: leave one of them out")
    else:
        refuse_options(("head",), "without --verify, which compares it: add that")
    path, name, certificate, told = _locate(run)
    witness = witness or told
    if verify:
        from sordino.account.certificate.verify import verify as check

        kept, document = head or [], None if certificate is None else _published(run)
        checked = list(check(path, certificate, heads=heads, witness=witness, kept=kept, run=name, document=document))
        print(
            strict_json.dumps({"verified": True, "ledger": str(path), "checks": checked})
            if as_json
            else "\n".join(checked)
        )
        return
    from sordino.account.ledger.ledger import Ledger
    from sordino.account.ledger.listing import listing

    with Ledger.open(path, write=False, heads=heads, witness=witness) as books:
        lines = list(listing(books, name, None if client is None else books.number(client)))
        about = {"ledger": str(path), "federation": books.federation, "population": books.population}
        about |= {"delta": books.delta, "head": books.head}
    if as_json:
        print(strict_json.dumps(about | {"releases": [line.record() for line in lines]}))
    else:
        _show(about, lines)


def _locate(run: Path) -> tuple[Path, str | None, Certificate | None, Path | None]:
    """Returns the ledger's file, the run's name in it, the run's certificate and its witness, if there are any."""
    from sordino.account.certificate.certificate import Certificate
    from sordino.errors import LedgerError

    if not run.is_dir():
        return run, None, None, None
    if not (run / "private").is_dir() and any((part / "heads.jsonl").exists() for part in (run, run / "public")):
        raise LedgerError(
            f"{run} holds what is public of a run, and its ledger is private: whoever ran it has it; what you have is "
            "checked by `sordino certificate --check`"
        )
    try:
        recipe = tomllib.loads(text) if (text := _read(run, "recipe.toml")) else {}
        facts = dict(json.loads(text)) if (text := _read(run, "run.json")) else {}
        certificate = Certificate.from_json(text) if (text := _read(run, "certificate.json")) else None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise LedgerError(f"run folder {run} cannot be read ({error}): name the ledger file instead") from None
    if certificate is not None and not isinstance(facts.get("run"), str):
        raise LedgerError(f"{run}/private/run.json does not name the run, to which its certificate is held: restore it")
    settings = recipe.get("ledger", {})
    path = Path(settings["path"]) if settings.get("path") else _place(run, "ledger.db")
    if not path.exists():
        raise LedgerError(f"run folder {run} has no ledger at {path}: name the ledger file instead")
    return path, facts.get("run"), certificate, Path(settings["witness"]) if settings.get("witness") else None


def _published(run: Path) -> CertificateDocument | None:
    """Returns what a run published of the certificate in its private part, if it did."""
    from sordino.account.certificate.document import CertificateDocument
    from sordino.errors import LedgerError

    place = run / "public" / "certificate.json"
    if not (place.exists() and (run / "private" / "certificate.json").exists()):
        return None
    try:
        return CertificateDocument.from_json(place.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"the public certificate of {run} cannot be read ({error}): bring it back") from None


def _place(run: Path, name: str) -> Path:
    """Returns where a file of a run lies: in its private or its public part, or in the folder itself."""
    return next((part for part in (run / "private" / name, run / "public" / name) if part.exists()), run / name)


def _read(run: Path, name: str) -> str | None:
    place = _place(run, name)
    return place.read_text() if place.exists() else None


def _show(about: dict[str, Any], lines: list[LedgerLine]) -> None:
    """Prints one table a promise."""
    console = terminal()
    console.print(f"{shown(about['federation'])}: {about['population']} clients, ε at δ = {about['delta']:g}\n")
    for guarantee in dict.fromkeys(line.guarantee for line in lines):
        console.print(_table([line for line in lines if line.guarantee == guarantee]))
    console.print(f"{len(lines)} charges; head {about['head'][:16]}…", style="dim")


def _table(lines: list[LedgerLine]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from sordino.account.certificate.text import number

    first = lines[0]
    promise = f"{first.guarantee.unit} against the {first.guarantee.observer} ({first.guarantee.adjacency})"
    table = Table(title=f"{promise}, by {first.accountant}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    many = len({line.run for line in lines}) > 1
    for column in ("row", *(["run"] if many else []), "round", "paid by", "event"):
        table.add_column(column, overflow="fold")
    for column in ("ε alone", f"sum, client {first.client}"):
        table.add_column(column, justify="right", overflow="fold")
    for line in lines:
        who = "the eligible" if line.payers == "eligible" else _who(line.participants)
        place = f"{line.row}" if line.settled else f"{line.row} (open)"
        cells = (place, *([line.run] if many else []), str(line.round), who, line.event)
        table.add_row(*map(shown, cells), number(line.cost), number(line.cumulative))
    return table


def _who(clients: tuple[int, ...]) -> str:
    return f"{len(clients)} clients" if len(clients) > 6 else ", ".join(map(str, clients)) or "nobody"

"""`sordino ledger`: every release, who paid, what it cost; and whether the books were touched."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from sordino.account.certificate.certificate import Certificate
    from sordino.account.ledger.listing import Line


def ledger(
    run: Annotated[Path, typer.Argument(help="run folder, or ledger file")],
    client: Annotated[int | None, typer.Option(help="only what this client paid, with its own running sum")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="check the chain and recompute every ε")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """List every release, or verify that nothing was changed.

    RUN is a run folder, or a ledger file.
    """
    path, name, certificate = _locate(run)
    if verify:
        from sordino.account.certificate.verify import verify as check

        checked = list(check(path, certificate))
        print(json.dumps({"verified": True, "ledger": str(path), "checks": checked}) if as_json else "\n".join(checked))
        return
    from sordino.account.ledger.ledger import Ledger
    from sordino.account.ledger.listing import listing

    with Ledger.open(path, write=False) as books:
        lines = list(listing(books, name, client))
        about = {"ledger": str(path), "federation": books.federation, "population": books.population}
        about |= {"delta": books.delta, "head": books.head}
    if as_json:
        print(json.dumps(about | {"releases": [line.record() for line in lines]}))
    else:
        _show(about, lines)


def _locate(run: Path) -> tuple[Path, str | None, Certificate | None]:
    """Returns the ledger's file, the run's name in it, and the run's certificate, as far as there are any."""
    from sordino.account.certificate.certificate import Certificate
    from sordino.errors import LedgerError

    if not run.is_dir():
        return run, None, None
    own = run / "ledger.db"
    try:
        recipe = tomllib.loads((run / "recipe.toml").read_text()) if (run / "recipe.toml").exists() else {}
        facts = json.loads((run / "run.json").read_text()) if (run / "run.json").exists() else {}
        told = run / "certificate.json"
        certificate = Certificate.from_json(told.read_text()) if told.exists() else None
    except (OSError, ValueError) as error:
        raise LedgerError(f"run folder {run} cannot be read ({error}): name the ledger file instead") from None
    shared = recipe.get("ledger", {}).get("path")
    path = Path(shared) if shared else own
    if not path.exists():
        raise LedgerError(f"run folder {run} has no ledger at {path}: name the ledger file instead")
    return path, facts.get("run"), certificate


def _show(about: dict[str, Any], lines: list[Line]) -> None:
    """Prints one table a promise."""
    from rich.console import Console

    console = Console()
    console.print(f"{about['federation']}: {about['population']} clients, ε at δ = {about['delta']:g}\n")
    for guarantee in dict.fromkeys(line.guarantee for line in lines):
        console.print(_table([line for line in lines if line.guarantee == guarantee]))
    console.print(f"{len(lines)} charges; head {about['head'][:16]}…", style="dim")


def _table(lines: list[Line]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from sordino.cli.books import number

    first = lines[0]
    promise = f"{first.guarantee.unit} against the {first.guarantee.observer} ({first.guarantee.adjacency})"
    table = Table(title=f"{promise}, by {first.accountant}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    many = len({line.run for line in lines}) > 1
    for column in ("row", *(["run"] if many else []), "round", "paid by", "event"):
        table.add_column(column, overflow="fold")
    for column in ("ε alone", f"sum, client {first.client}"):
        table.add_column(column, justify="right")
    for line in lines:
        who = "the eligible" if line.payers == "eligible" else _who(line.participants)
        place = f"{line.row}" if line.settled else f"{line.row} (open)"
        cells = (place, *([line.run] if many else []), str(line.round), who, line.event)
        table.add_row(*cells, number(line.cost), number(line.cumulative))
    return table


def _who(clients: tuple[int, ...]) -> str:
    return f"{len(clients)} clients" if len(clients) > 6 else ", ".join(map(str, clients)) or "nobody"

"""`sordino ledger`: every release, who paid, what it cost; and whether the books were touched."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sordino.account.certificate import Certificate
    from sordino.account.listing import Line


def ledger(
    run: Annotated[Path, typer.Argument(help="run folder, or ledger file")],
    client: Annotated[int | None, typer.Option(help="only what this client paid, with its own running sum")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="check the chain and recompute every ε")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """List every release, or verify that nothing was changed."""
    path, name, certificate = _locate(run)
    if verify:
        from sordino.account.verify import verify as check

        checked = list(check(path, certificate))
        print(json.dumps({"verified": True, "ledger": str(path), "checks": checked}) if as_json else "\n".join(checked))
        return
    from sordino.account.ledger import Ledger
    from sordino.account.listing import listing

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
    from sordino.account.certificate import Certificate
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
    from rich.console import Console
    from rich.table import Table

    from sordino.account.display import number

    table = Table(
        title=f"{about['federation']}: {about['population']} clients, ε at δ = {about['delta']:g}",
        title_justify="left",
        pad_edge=False,
    )
    for column in ("row", "run", "round", "clients", "promise", "event"):
        table.add_column(column, overflow="fold")
    for column in ("ε alone", "sum", "of client"):
        table.add_column(column, justify="right")
    for line in lines:
        promise = f"{line.guarantee.unit}/{line.guarantee.observer}"
        who = f"{line.clients}" if line.payers == "participants" else "eligible"
        state = "" if line.settled else " (open)"
        cells = (f"{line.row}{state}", line.run, str(line.round), who, promise, line.event)
        table.add_row(*cells, number(line.cost), number(line.cumulative), str(line.client))
    console = Console()
    console.print(table)
    console.print(f"{len(lines)} charges; head {about['head'][:16]}…", style="dim")

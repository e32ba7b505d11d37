"""`sordino mechanisms`: what there is, whom it protects, and from whom."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def mechanisms(
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON list")] = False,
) -> None:
    """List the mechanisms: unit, trust, observers and status, in each mode."""
    from sordino.mechanisms import MECHANISMS

    rows = [row for name, entry in MECHANISMS.items() for row in entry.rows(name)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("mechanism", "mode", "unit", "trust", "server", "outsider", "what it does", pad_edge=False)
    for row in rows:
        table.add_row(*(row[column] for column in ("name", "mode", "unit", "trust", "server", "outsider", "summary")))
    Console().print(table)

"""`sordino data`: which data sets there are, which of them are here, and how to get the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from sordino import strict_json
from sordino.cli.shown import sentences, shown

_STYLES = {"installed": "green", "found": "green", "yours": "cyan", "missing": "yellow"}


def data(
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON list")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="folder that holds the data sets (default: $SORDINO_DATA, else ./data)")
    ] = None,
) -> None:
    """List the data sets: what is installed, what is found on disk, and how to get what is missing."""
    from sordino.data.files import data_folder

    rows = _rows(folder)
    if as_json:
        print(strict_json.dumps(rows, indent=2))
        return
    table = Table("data set", "records", "classes", "natural clients", "status", box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        status = f"[{_STYLES[row['status']]}]{row['status']}[/]"
        table.add_row(row["name"], _records(row), _classes(row), _clients(row), status)
    console = sentences(highlight=False)
    console.print(table)
    root = data_folder(folder)
    console.print(f"Data sets are looked for in {shown(root)}{'' if root.is_dir() else ', which is no folder'}.\n")
    for row in rows:
        console.print(f"[bold]{row['name']}[/]: {escape(row['description'])}. [dim]{escape(_whereabouts(row))}[/]")


def _whereabouts(row: dict[str, Any]) -> str:
    return f"Found in {row['path']}." if row["path"] else str(row["how_to_get"])


def _rows(folder: Path | None) -> list[dict[str, Any]]:
    from sordino.data import DATASETS
    from sordino.data.files import data_folder

    root = data_folder(folder)
    return [
        {
            "name": dataset.name,
            "description": dataset.description,
            "train": dataset.train,
            "test": dataset.test,
            "classes": dataset.classes,
            "natural_key": dataset.natural_key,
            "natural_clients": dataset.natural_clients,
            "status": dataset.status(root),
            "path": str(found) if (found := dataset.found(root)) else None,
            "how_to_get": dataset.how_to_get,
        }
        for dataset in DATASETS.values()
    ]


def _records(row: dict[str, Any]) -> str:
    return "" if row["train"] is None else f"{row['train']:,} + {row['test']:,}"


def _classes(row: dict[str, Any]) -> str:
    if row["classes"] is None:
        return ""
    return str(row["classes"]) if row["classes"] else "regression"


def _clients(row: dict[str, Any]) -> str:
    key, count = row["natural_key"], row["natural_clients"]
    return "" if key is None else f"{key} ({count})" if count else key

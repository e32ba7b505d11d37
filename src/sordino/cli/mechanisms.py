"""`sordino mechanisms`: what there is, whom it protects, and from whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich import box
from rich.table import Table

from sordino import strict_json
from sordino.cli.shown import terminal

if TYPE_CHECKING:
    from sordino.data.federation import Federation
    from sordino.mechanism import Mechanism
    from sordino.types import Mode, Observer

_COLUMNS = ("mechanism", "mode", "unit", "trust", "server", "outsider")


def mechanisms(
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON list")] = False,
) -> None:
    """List the mechanisms: unit, trust, observers and status, in each mode (`faithful`: as a paper prints it)."""
    from sordino.data.make import federate
    from sordino.mechanisms import MECHANISMS
    from sordino.types import Mode

    federation = federate()
    rows = [
        _row(name, mode, federation)
        for name, spec in MECHANISMS.items()
        for mode in get_args(Mode)
        if mode == "certified" or spec.paper  # without a paper there is nothing to be faithful to
    ]
    if as_json:
        print(strict_json.dumps(rows, indent=2))
        return
    _show(rows)


def _show(rows: list[dict[str, str]]) -> None:
    table = Table(*_COLUMNS, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in table.columns:
        column.overflow = "fold"
    table.columns[0].no_wrap = True
    for column in table.columns[4:]:
        column.min_width = len("claimed-only")
    colours = {"certified": "green", "claimed-only": "yellow", "unprotected": "red"}
    last = {row["mechanism"]: row["mode"] for row in rows}
    for row in rows:
        cells = [row["mechanism"] if row["mode"] == "certified" else "", *(row[name] for name in _COLUMNS[1:4])]
        cells += [f"[{colours[row[observer].split()[0]]}]{row[observer]}[/]" for observer in _COLUMNS[4:]]
        table.add_row(*cells, end_section=row["mode"] == last[row["mechanism"]])
    console = terminal()
    console.print(table)
    console.print()
    for row in rows:
        if row["mode"] == "certified":
            console.print(
                f"[bold]{row['mechanism']}[/]: {row['summary']}", soft_wrap=not console.is_terminal, highlight=False
            )


def _row(name: str, mode: Mode, federation: Federation) -> dict[str, str]:
    """Describes a mechanism by composing it for the embedded default and asking it for a quote."""
    from sordino.mechanisms import MECHANISMS
    from sordino.recipe import Recipe
    from sordino.runs.setup import assemble

    recipe = Recipe.from_dict({"mechanism": {"name": name, "mode": mode}})
    mechanism = assemble(recipe, federation=federation).mechanism
    return {
        "mechanism": name,
        "mode": mode,
        "unit": mechanism.unit,
        "trust": mechanism.trust,
        "server": _status(mechanism, "server"),
        "outsider": _status(mechanism, "outsider"),
        "summary": MECHANISMS[name].summary,
    }


def _status(mechanism: Mechanism, observer: Observer) -> str:
    """Returns what is promised against an observer: the adjacency when certified, else what there is instead."""
    from sordino.events import Unbounded

    seen = {charge.guarantee: charge.event for charge in mechanism.quote(mechanism.adapter.start())}
    for guarantee, event in seen.items():
        if guarantee.observer == observer and not isinstance(event, Unbounded):
            return f"certified {guarantee.adjacency}"
    return "claimed-only" if mechanism.claim else "unprotected"

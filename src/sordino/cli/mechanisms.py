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


_NARROW = 78
"""Columns below which the table would break words."""


def mechanisms(
    names: Annotated[list[str] | None, typer.Argument(help="only these (all when left out)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON list")] = False,
) -> None:
    """List the mechanisms: unit, trust, observers and status, in each mode (`faithful`: as a paper prints it).

    `sordino recipe --explain NAME` has a mechanism's settings.
    """
    from sordino.data.make import federate
    from sordino.errors import RecipeError
    from sordino.mechanisms import MECHANISMS
    from sordino.types import Mode

    for name in names or ():
        if name not in MECHANISMS:
            raise RecipeError(f"{name!r} is not a mechanism: choose among {', '.join(MECHANISMS)}")
    federation = federate()
    rows = [
        _row(name, mode, federation)
        for name, spec in MECHANISMS.items()
        if not names or name in names
        for mode in get_args(Mode)
        if mode == "certified" or spec.paper  # without a paper there is nothing to be faithful to
    ]
    if as_json:
        print(strict_json.dumps(rows, indent=2))
        return
    _show(rows)


def _show(rows: list[dict[str, str]]) -> None:
    console = terminal()
    if console.width < _NARROW:
        for row in rows:
            if row["mode"] == "certified":
                console.print(f"[bold]{row['mechanism']}[/]: {row['summary']}", highlight=False)
            promised = ", ".join(f"{observer} {row[observer]}" for observer in _COLUMNS[4:])
            console.print(f"· {row['mode']}, {row['unit']}, {row['trust']} trust: {promised}", highlight=False)
        return
    console.print(_table(rows))
    console.print()
    for row in rows:
        if row["mode"] == "certified":
            console.print(
                f"[bold]{row['mechanism']}[/]: {row['summary']}", soft_wrap=not console.is_terminal, highlight=False
            )


def _table(rows: list[dict[str, str]]) -> Table:
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
    return table


def _row(name: str, mode: Mode, federation: Federation) -> dict[str, str]:
    """Describes a mechanism by composing it for the embedded default and asking it for a quote."""
    from sordino.mechanisms import MECHANISMS
    from sordino.recipe import Recipe
    from sordino.runs.setup import composed

    recipe = Recipe.from_dict({"mechanism": {"name": name, "mode": mode, "noise_multiplier": 1.0}})  # no matter which
    mechanism = composed(recipe, federation)
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

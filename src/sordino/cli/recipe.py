"""`sordino recipe`: what can be set, and the recipe that a set of settings makes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


def recipe(
    path: Annotated[Path | None, typer.Argument(help="recipe (TOML) to complete and check")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="override a setting: section.field=value")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="list every setting with its default and meaning")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the JSON schema, or the recipe as JSON")] = False,
) -> None:
    """Check a recipe and print it with every default written out, or explain all settings.

    PATH is a TOML file; without one it is the embedded default.
    """
    from sordino.recipe import Recipe

    if not explain:
        chosen = Recipe.load(path, set_ or ())
        print(chosen.model_dump_json(indent=2) if as_json else chosen.to_toml(), end="\n" if as_json else "")
    elif as_json:
        import json

        print(json.dumps(Recipe.model_json_schema(), indent=2))
    else:
        _explain()


def _explain() -> None:
    from sordino.mechanisms import MECHANISMS
    from sordino.recipe import Recipe

    table = Table("setting", "default", "meaning", box=None, pad_edge=False)
    for section, about in Recipe.model_fields.items():
        if section != "mechanism":
            _rows(table, section, about.annotation)
    for name, entry in MECHANISMS.items():
        _rows(table, "mechanism", entry.options, f"  [dim]with mechanism.name = {name}: {entry.summary}[/]")
    Console().print(table)


def _rows(table: Table, section: str, model: Any, title: str | None = None) -> None:
    table.add_row(f"[bold]\\[{section}][/]", "", title or f"[dim]{(model.__doc__ or '').splitlines()[0]}[/]")
    for name, about in model.model_fields.items():
        default = about.get_default(call_default_factory=True)
        table.add_row(f"{section}.{name}", "–" if default is None else str(default), about.description or "")
    table.add_row()

"""`sordino recipe`: what can be set, and the recipe that a set of settings makes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from rich.table import Table

from sordino.cli.idle import refuse_options
from sordino.cli.shown import terminal


def recipe(
    path: Annotated[Path | None, typer.Argument(help="recipe (TOML); with --explain a section or mechanism")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="override a setting: section.field=value")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="list every setting with its default and meaning")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the JSON schema, or the recipe as JSON")] = False,
) -> None:
    """Check a recipe and print it with every default written out, or explain all settings.

    PATH is a TOML file; without one it is the embedded default. With --explain it is the section or the mechanism to
    explain, and without one all are.
    """
    from sordino.errors import RecipeError
    from sordino.recipe import Recipe

    if not explain:
        chosen = Recipe.load(path, set_ or ())
        print(chosen.model_dump_json(indent=2) if as_json else chosen.to_toml(), end="\n" if as_json else "")
        return
    refuse_options(("set_",), "on what --explain lists: leave one of them out")
    if as_json:
        from sordino import strict_json

        if path is not None:
            raise RecipeError(f"--explain {path} --json: the JSON schema has all sections; leave {path} out")
        print(strict_json.dumps(Recipe.model_json_schema(), indent=2))
    else:
        _explain(None if path is None else str(path))


def _explain(only: str | None) -> None:
    from sordino.errors import RecipeError
    from sordino.mechanisms import MECHANISMS
    from sordino.recipe import Recipe

    known = [*Recipe.model_fields, *MECHANISMS]
    if only is not None and only not in known:
        raise RecipeError(f"--explain {only}: there is no such section or mechanism: choose one of {', '.join(known)}")
    table = Table("setting", "default", "meaning", box=None, pad_edge=False)
    table.columns[0].overflow = "fold"  # a name that is cut off cannot be set
    for section, about in Recipe.model_fields.items():
        if section != "mechanism" and only in (None, section):
            _rows(table, section, about.annotation)
    for name, entry in MECHANISMS.items():
        if only in (None, "mechanism", name):
            _rows(table, "mechanism", entry.options, f"[dim]with mechanism.name = {name}: {entry.summary}[/]")
    terminal().print(table)


def _rows(table: Table, section: str, model: Any, title: str | None = None) -> None:
    table.add_row(f"[bold]\\[{section}][/]", "", title or f"[dim]{(model.__doc__ or '').splitlines()[0]}[/]")
    for name, about in model.model_fields.items():
        default = about.get_default(call_default_factory=True)
        table.add_row(f"{section}.{name}", _default(section, model, name, default), _meaning(about))
    table.add_row()


def _default(section: str, model: Any, name: str, default: Any) -> str:
    """Returns a default, and what the embedded recipe has in its place (which begins where no mechanism is named)."""
    from sordino.recipe import Recipe

    shown = "–" if default is None else str(default)
    embedded = getattr(Recipe(), section)
    if not isinstance(embedded, model) or getattr(embedded, name) == default:
        return shown
    return f"{shown} (embedded recipe: {getattr(embedded, name)})"


def _meaning(about: Any) -> str:
    """Returns what a setting means, with what can be chosen."""
    told, known = about.description or "", choices(about)
    return f"{told} [dim]({' | '.join(known)})[/]" if len(known) > 1 else told


def choices(about: Any) -> list[str]:
    """Returns what a setting can be chosen from; nothing where it is a number or a name."""
    kinds = (about.annotation, *get_args(about.annotation))
    return [str(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]

"""`sordino recipe`: what can be set, and the recipe that a set of settings makes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from rich.table import Table

from sordino.cli.idle import refuse_options
from sordino.cli.shown import terminal

if TYPE_CHECKING:
    from sordino.recipe import Recipe


def recipe(
    path: Annotated[Path | None, typer.Argument(help="recipe (TOML); with --explain a section or mechanism")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="override a setting: section.field=value")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="list every setting with its default and meaning")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the JSON schema, or the recipe as JSON")] = False,
) -> None:
    """Check a recipe and print it with every default written out, or explain all settings.

    What is left open and follows from features is written out as a run would have it; for that the data are looked up.
    PATH is a TOML file; without one it is the embedded default. With --explain it is the section or the mechanism to
    explain, and without one all are.
    """
    from sordino.errors import RecipeError
    from sordino.recipe import Recipe

    if not explain:
        chosen, why = _settled(Recipe.load(path, set_ or ()))
        told = f"# {why}\n{chosen.to_toml()}" if why else chosen.to_toml()
        print(chosen.model_dump_json(indent=2) if as_json else told, end="\n" if as_json else "")
        return
    refuse_options(("set_",), "on what --explain lists: leave one of them out")
    if as_json:
        from sordino import strict_json

        if path is not None:
            raise RecipeError(f"--explain {path} --json: the JSON schema has all sections; leave {path} out")
        print(strict_json.dumps(Recipe.model_json_schema(), indent=2))
    else:
        _explain(None if path is None else str(path))


def _settled(recipe: Recipe) -> tuple[Recipe, str]:
    """Returns the recipe with what follows from its features, and a sentence on that."""
    if not recipe.follows_features:
        return recipe, ""  # nothing to import torch for
    from sordino.runs.setup import settle

    found = settle(recipe)
    return found.recipe, found.why


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
    from sordino.advise.by_features import FOLLOWS
    from sordino.recipe import Recipe

    shown = "–" if default is None else str(default)
    embedded, follows = getattr(Recipe(), section), FOLLOWS.get(f"{section}.{name}")
    beside = [f"embedded recipe: {getattr(embedded, name)}"] if isinstance(embedded, model) else []
    beside = [] if not beside or getattr(embedded, name) == default else beside
    beside += [f"left open, with data.features: {follows}"] if follows else []
    return f"{shown} ({'; '.join(beside)})" if beside else shown


def _meaning(about: Any) -> str:
    """Returns what a setting means, with what can be chosen."""
    told, known = about.description or "", choices(about)
    return f"{told} [dim]({' | '.join(known)})[/]" if len(known) > 1 else told


def choices(about: Any) -> list[str]:
    """Returns what a setting can be chosen from; nothing where it is a number or a name."""
    kinds = (about.annotation, *get_args(about.annotation))
    return [str(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]

"""Options of a command that have no effect beside the others: refused, and never ignored in silence."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.core import ParameterSource

from sordino.errors import RecipeError


def refuse_options(names: Iterable[str], why: str) -> None:
    """Refuses options and arguments of the running command that were given, and that it does not look at.

    **Edge cases**: a command that is called from Python has no options that were given.

    Raises:
        RecipeError: a sentence for the first of them: it "has no effect", and `why`.
    """
    context, unused = click.get_current_context(silent=True), set(names)
    if context is None:
        return
    for param in context.command.params:
        name = param.name or ""
        if name in unused and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            shown = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
            raise RecipeError(f"{shown} has no effect {why}")


def refuse_others(names: Iterable[str], why: str) -> None:
    """Refuses all options that were given but these (and those that say how to print)."""
    context = click.get_current_context(silent=True)
    every = {param.name or "" for param in context.command.params} if context is not None else set()
    refuse_options(every - {*names, "as_json", "help"}, why)

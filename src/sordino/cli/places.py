"""Files and folders on the command line: an empty name is none, where Python takes it for the current folder."""

from __future__ import annotations

from typing import Any

import click
from typer.models import TyperPath

from sordino.errors import RecipeError


class NamedPath(TyperPath):
    """A file or folder that has to have a name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the path as it was given.

        Raises:
            RecipeError: it is empty, as `--out "$UNSET"` is.
        """
        if not str(value).strip():
            name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name if param else "path"
            remedy = "name a file or folder" + ("" if param is None or param.required else ", or leave it out")
            raise RecipeError(f"{name} is empty: {remedy}")
        return super().convert(value, param, ctx)


def name_places(command: click.Command) -> click.Command:
    """Returns the command, which refuses empty names of files and folders from now on; and so do those inside it."""
    for param in command.params:
        if isinstance(param.type, TyperPath):
            param.type = NamedPath()
    for inside in command.commands.values() if isinstance(command, click.Group) else ():
        name_places(inside)
    return command

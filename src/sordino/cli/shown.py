"""Words for a terminal: nothing in them is taken for a command to it, or for rich's own markup."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from sordino.printable import printable


def shown(text: object) -> str:
    """Returns a text, line by line, as `Console.print` shows it unchanged."""
    return "\n".join(escape(printable(line)) for line in str(text).split("\n"))


def terminal(**options: Any) -> Console:
    """Returns a console that takes no word for a picture: `nets.py:x: …` stays as it is."""
    return Console(emoji=False, **options)


def sentences(**options: Any) -> Console:
    """Returns a console for prose: whole lines in a log or a pipe, and no word cut in two on a screen."""
    console = terminal(**options)
    console.soft_wrap = not console.is_terminal
    return console

"""Words for a terminal: nothing in them is taken for a command to it, or for rich's own markup."""

from __future__ import annotations

from rich.markup import escape

from sordino.printable import printable


def shown(text: object) -> str:
    """Returns a text, line by line, as `Console.print` shows it unchanged."""
    return "\n".join(escape(printable(line)) for line in str(text).split("\n"))

"""Texts as they may be shown: what strangers may have written (names of clients, runs, files), and counts."""

from __future__ import annotations

import re


def printable(text: str) -> str:
    """Returns a line without what would steer a terminal, or begin a line of its own."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def in_markdown(text: str) -> str:
    """Returns a line that Markdown shows as it is: no HTML, link, picture or end of a table's cell begins in it."""
    escaped = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|\[\]])", r"\\\1", escaped)


def counted(number: int, noun: str) -> str:
    """Returns how many there are: `1 client`, `1,437 clients`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

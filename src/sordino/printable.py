"""Texts as they may be shown: what strangers may have written (names of clients, runs, files), and counts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

LONG = 64
"""A text longer than this is cut in the middle where an error quotes it."""
SHOWN = 24
"""So many characters of each end are left of it."""
MOST_NAMES = 40
"""A list of names goes no further than this."""


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


def quoted(value: object) -> str:
    """Returns what somebody wrote, in quotes; what is long is cut in the middle, and its length is told."""
    text = repr(value)
    if len(text) <= LONG:
        return text
    length = f"{len(value):,} characters" if isinstance(value, str) else f"{len(text):,} characters in all"
    return f"{text[:SHOWN]}…{text[-SHOWN:]} ({length})"


def listed(names: Sequence[str]) -> str:
    """Returns names in a row: in quotes where one could be taken for two, and no more than can be read."""
    told = [quoted(name) if "," in name or '"' in name or len(name) > LONG else name for name in names[:MOST_NAMES]]
    rest = [f"… ({len(names):,} in all)"] if len(names) > MOST_NAMES else []
    return ", ".join([*told, *rest]) or "none"


def toml_key(name: str) -> str:
    """Returns a name as it stands before the `=` in a recipe."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)

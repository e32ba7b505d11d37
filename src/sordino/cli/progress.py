"""What commands show while they work: bars, and how to go on after Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from sordino.runs.progress import Bar, RoundProgress

__all__ = ["Bar", "RoundProgress", "going_on"]


@contextmanager
def going_on(command: str, once: Path | None = None) -> Iterator[None]:
    """Ends the command on Ctrl-C, and says how to go on; with `once`, only if that file is there to go on from."""
    try:
        yield
    except KeyboardInterrupt:
        if once is None or once.exists():
            print(f"stopped; {command} goes on where it ended", file=sys.stderr)
        raise typer.Exit(130) from None

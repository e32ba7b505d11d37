"""The command line: `sordino`."""

from sordino.cli.app import main

__all__ = ["main"]

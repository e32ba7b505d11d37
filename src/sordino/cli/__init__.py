"""The command line: `sordino`."""

from sordino.cli.app import app, main

__all__ = ["app", "main"]

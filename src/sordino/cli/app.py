"""The commands, and how an error becomes one sentence and exit code 2.

Commands import what they need when they run, so that `sordino account` never waits for torch.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from sordino._version import __version__
from sordino.cli.letters import spell_out
from sordino.cli.places import name_places
from sordino.cli.shown import sentences, shown
from sordino.errors import SordinoError

app = typer.Typer(
    name="sordino",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    suggest_commands=False,  # click does already
)
errors = sentences(stderr=True)

_COMMANDS = (
    "run",
    "recipe",
    "mechanisms",
    "data",
    "account",
    "advise",
    "plan",
    "ledger",
    "certificate",
    "report",
    "compare",
    "tune",
    "reproduce",
    "audit",
)

_BEYOND: dict[type[Exception], str] = {
    OverflowError: "a number is too large, or leads to one that is",
    ZeroDivisionError: "a number is too small or too large to be computed with",
    FloatingPointError: "a number is too small or too large to be computed with",
    RecursionError: "a file or a setting nests too deeply",
    UnicodeEncodeError: "a setting is not valid text",
}
"""What no command foresees of its numbers and texts, since any of them can be the one."""

_GROUPS = ("federation", "node")
"""Commands that have commands of their own."""


def _version(asked: bool) -> None:
    if asked:
        print(f"sordino {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Train models on data that stays with its owners, and tell the truth about what that gives away."""


def register() -> None:
    """Adds every command to the app."""
    for name in _GROUPS:
        app.add_typer(getattr(import_module(f"sordino.cli.{name}"), name), name=name)
    for name in _COMMANDS:
        command: Any = getattr(import_module(f"sordino.cli.{name}"), name)
        app.command(name)(command)


def main() -> None:
    """Runs the command line; every foreseen error is one sentence on stderr and exit code 2.

    Being asked to end (`kill`) is the same as Ctrl-C, so that nobody leaves processes behind.
    """
    register()
    spell_out()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        name_places(typer.main.get_command(app))()
    except SordinoError as error:
        errors.print(f"[bold red]sordino:[/] {shown(error)}", highlight=False)
        sys.exit(2)
    except tuple(_BEYOND) as error:
        beyond = next(words for kind, words in _BEYOND.items() if isinstance(error, kind))
        told = f"{beyond} ({error}): take a less extreme one"
        errors.print(f"[bold red]sordino:[/] {shown(told)}", highlight=False)
        sys.exit(2)
    except OSError as error:
        told = f"{error.filename or 'a file'}: {error.strerror or error}"
        errors.print(
            f"[bold red]sordino:[/] {shown(told)}; check its path, its permissions and the disk", highlight=False
        )
        sys.exit(2)

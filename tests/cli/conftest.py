"""The command line in this process: starting Python and torch anew for every sentence would take minutes."""

import sys
from dataclasses import dataclass

import pytest

from sordino.cli.app import app, main


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


@pytest.fixture
def command(capsys, monkeypatch):
    """Runs a command in a folder, checks its exit code, and returns what it printed."""

    def run(*arguments, cwd, code=0):
        app.registered_commands.clear()
        app.registered_groups.clear()
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["sordino", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
            raise SystemExit(0)
        captured = capsys.readouterr()
        assert (end.value.code or 0) == code, captured.err
        return Done(captured.out, captured.err)

    return run

"""A process that has imported everything and forks an app whenever one is wanted: seconds of imports, paid once.

Flower starts a new Python for every message that a node gets, and a secure sum sends five a round. It gives up on an
app that is not up within a minute, which is short on a machine that is busy. This process waits at a socket that only
its own user can reach; a launcher (`own_code.py`) passes it a program's name and arguments, and the fork runs that.

**Formal guarantees**: it computes nothing itself and starts no thread, so a fork begins as a fresh process would; all
secret randomness is drawn in the fork, from the operating system. It ends when the process that started it does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path

from sordino.federation.own_code import CLIENT_APP, RUNS, SERVER_APP, SOCKET

_LOOK = 0.5
"""Seconds between two looks at whether the parent still lives."""


def serve(folder: Path) -> None:
    """Listens in the launchers' folder, and forks an app for everyone who asks."""
    parent = os.getppid()
    os.chdir(folder)  # the names of sockets must be short, and folders' names need not be
    Path(SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        before = os.umask(0o177)
        door.bind(SOCKET)
        os.umask(before)
        door.listen(16)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are reaped by the system
        while os.getppid() == parent:
            if select.select([door], [], [], _LOOK)[0]:
                _answer(door)


def load(*, node: bool) -> None:
    """Imports all that a fork on a node, or on a server, will need: what it imports itself, it pays for each time."""
    app = CLIENT_APP if node else SERVER_APP
    side = "flwr.supernode" if node else "flwr.superlink"
    # torch imports its compiler, and sympy with it, when a model is made: a second of processor time for every message
    torch = ("torch", "torch._dynamo")
    for module in (*torch, f"{side}.cli", f"{side}.runtime", "flwr.supercore.cli", app.split(":")[0]):
        import_module(module)


def begin(folder: Path) -> int:
    """Forks the process that waits for launchers; returns its number. Call before this process has threads."""
    if pid := os.fork():
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        serve(folder)
    finally:
        os._exit(0)


def _answer(door: socket.socket) -> None:
    caller, _ = door.accept()
    with caller:
        told = b"".join(iter(lambda: caller.recv(1 << 16), b""))
        if os.fork():
            return
        door.close()
        caller.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        name, *arguments = json.loads(told)
        _run(name, arguments)


def _run(name: str, arguments: list[str]) -> None:
    status = 1
    try:
        RUNS[name](arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

"""A process that has imported everything and forks a ClientApp for each message: 2 seconds of imports, paid once.

Flower starts a new Python for every message that a node gets, and a secure sum sends five a round. This process waits
at a socket that only the node's user can reach; a launcher (`own_code.py`) passes it a ClientApp's arguments, and the
fork runs that one message and ends.

**Formal guarantees**: it computes nothing itself and keeps no thread, so a fork begins as a fresh process would; all
secret randomness is drawn in the fork, from the operating system. It ends when the process that started it does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from sordino.federation.own_code import CLIENT_APP, SOCKET, run_clientapp

_LOOK = 0.5
"""Seconds between two looks at whether the parent still lives."""


def serve(folder: Path) -> None:
    """Listens in the launchers' folder, and forks a ClientApp for everyone who asks."""
    parent = os.getppid()
    os.chdir(folder)  # the names of sockets must be short, and folders' names need not be
    Path(SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        before = os.umask(0o177)
        door.bind(SOCKET)
        os.umask(before)
        door.listen(16)
        _load()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are reaped by the system
        while os.getppid() == parent:
            if select.select([door], [], [], _LOOK)[0]:
                _answer(door)


def _load() -> None:
    import importlib

    for module in ("torch", "flwr.supernode.cli", "flwr.supernode.runtime.run_clientapp", CLIENT_APP.split(":")[0]):
        importlib.import_module(module)


def _answer(door: socket.socket) -> None:
    caller, _ = door.accept()
    with caller:
        told = b"".join(iter(lambda: caller.recv(1 << 16), b""))
        if os.fork():
            return
        door.close()
        caller.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _run(json.loads(told))


def _run(arguments: list[str]) -> None:
    import torch

    torch.set_num_threads(1)  # several nodes may share a machine, and a fork has no use for threads of its own
    status = 1
    try:
        run_clientapp(arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        serve(Path(sys.argv[1]))

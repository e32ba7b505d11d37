"""Starts and ends the processes of a federation, and leaves none behind.

What is started here is a session of its own and gets a mark in its environment. Flower's programs start others, some in
further sessions, so ending one ends its session and whatever bears its mark (where /proc shows that: on Linux).
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sordino.errors import FederationError
from sordino.files import PRIVATE, opener

_MARK = "SORDINO_PROCESS"
_PATIENCE = 5.0
_STARTING = 600.0
"""Seconds for which a SuperLink is waited for."""


def free_port() -> int:
    """Returns a port of this machine that nobody listens at now."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def free_ports(count: int) -> list[int]:
    """Returns distinct ports that nobody listens at now."""
    doors = [socket.socket() for _ in range(count)]
    try:
        for door in doors:
            door.bind(("127.0.0.1", 0))
        return [int(door.getsockname()[1]) for door in doors]
    finally:
        for door in doors:
            door.close()


@dataclass
class Started:
    """A process that was started here, with everything that it starts."""

    process: subprocess.Popen[bytes]
    mark: str
    log: Path

    @property
    def alive(self) -> bool:
        """Whether the process itself is still there."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Ends it and all that it started at once, as a power cut would."""
        if self.alive:  # else its number may be another's by now
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pid in marked(self.mark):
            _signal(pid, signal.SIGKILL)
        _await_none(self.mark)

    def stop(self) -> None:
        """Asks it to end, waits, and then makes sure."""
        stop_all([self])

    def tail(self, lines: int = 12) -> str:
        """Returns the end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def stop_all(started: Sequence[Started]) -> None:
    """Ends several at once: all are asked, and then waited for together."""
    alive = [one for one in started if one.alive]
    for one in alive:
        one.process.terminate()
    until = time.monotonic() + _PATIENCE
    for one in alive:
        with suppress(subprocess.TimeoutExpired):
            one.process.wait(max(0.0, until - time.monotonic()))
    for one in started:
        one.kill()


def start(module: str, *arguments: str, log: Path, **environment: str) -> Started:
    """Starts a module of sordino in a process and a session of its own; what it says goes to a log."""
    mark = secrets.token_hex(8)
    surroundings = {**os.environ, **environment, _MARK: mark}
    with open(log, "ab", opener=opener(PRIVATE)) as out:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=surroundings,
            start_new_session=True,
        )
    return Started(process, mark, log)


def start_superlink(folder: Path, host: str = "127.0.0.1") -> Started:
    """Starts a federation's SuperLink on this machine, and returns once it answers.

    Raises:
        FederationError: it ended, or did not answer in time; the sentence shows the end of its log.
    """
    from sordino.federation.folder import FederationFolder

    port = FederationFolder(folder).about["port"]
    if answers(port):
        raise FederationError(f"port {port} is taken: end the SuperLink that runs there, or change federation.toml")
    log = folder / "superlink" / "superlink.log"
    link = start("sordino.federation.superlink", str(folder.absolute()), host, log=log)
    until = time.monotonic() + _STARTING
    while not answers(port):
        if not link.alive or time.monotonic() > until:
            link.stop()
            raise FederationError(f"the SuperLink did not start: see {log}, which ends with: {link.tail(3)}")
        time.sleep(0.1)
    return link


def start_node(folder: Path) -> Started:
    """Starts a node's SuperNode on this machine, which others share: each computes with one thread."""
    log = folder / "state" / "supernode.log"
    arguments = (str(folder.absolute()), str(free_port()))
    return start("sordino.federation.supernode", *arguments, log=log, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def answers(port: int) -> bool:
    """Whether somebody listens at a port of this machine."""
    with socket.socket() as door:
        door.settimeout(1.0)
        return door.connect_ex(("127.0.0.1", port)) == 0


def marked(mark: str) -> Iterator[int]:
    """Yields the processes that bear a mark."""
    wanted = f"{_MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0") and not _ended(entry):
                yield int(entry.name)


def _ended(entry: Path) -> bool:
    """Whether a process is a zombie, that only waits for its parent to look at it."""
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _signal(pid: int, which: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, which)


def _await_none(mark: str) -> None:
    until = time.monotonic() + _PATIENCE
    while (left := list(marked(mark))) and time.monotonic() < until:
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.05)

"""Another process that computes for this one."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

import torch

from sordino.train.buffer import SharedBuffer
from sordino.train.channel import Channel

WorkerJob = tuple[Any, ...]
"""The arguments of one call."""


class Worker:
    """A process of one core that is sent work and sends back results.

    **Edge cases**: whatever goes wrong there (it was killed, it cannot import the user's module, the work raises),
    there are no results, and the work is for the asker to do.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        to_mate, from_mate = SharedBuffer.create(), SharedBuffer.create()
        descriptors = (theirs.fileno(), to_mate.descriptor, from_mate.descriptor)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from sordino.train.worker import serve; serve{descriptors}"],
                pass_fds=descriptors,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the keyboard is for us, who then close the channel
            )
        self._channel = Channel(Connection(ours.detach()), to_mate, from_mate)
        self._alive, self._greeted, self._asked = True, False, 0

    def ready(self, patience: float = 0.0) -> bool:
        """Whether the process is up; it needs a second or two to load its libraries."""
        if self._alive and not self._greeted and self._channel.waiting(patience):
            self._greeted = self.receive() is not None
        return self._alive and self._greeted

    def ask(self, work: bytes, jobs: Sequence[WorkerJob]) -> None:
        """Asks for `[work(*job) for job in jobs]`, with the work as a pickled function; `receive` returns it."""
        self._asked += 1
        try:
            self._channel.send((self._asked, work, jobs))
        except OSError:
            self._alive = False

    def receive(self) -> list[Any] | None:
        """Waits for the results of the last question, or returns None when there are none."""
        try:
            while self._alive:
                number, results = self._channel.receive()
                if number == self._asked:  # not the answer to an earlier question, whose asker gave up
                    found: list[Any] | None = results
                    return found
        except (OSError, EOFError):
            self._alive = False
        return None

    def dismiss(self) -> None:
        """Ends the process."""
        self._channel.close()
        self._process.terminate()
        self._process.wait()


def serve(connection: int, incoming: int, outgoing: int) -> None:
    """Runs in a worker: computes what it is asked for, until the asker goes away."""
    torch.set_num_threads(1)
    keep_freed_memory()
    channel = Channel(Connection(connection), SharedBuffer(outgoing), SharedBuffer(incoming))
    load = lru_cache(8)(pickle.loads)
    channel.send((0, []))
    while True:
        try:
            number, work, jobs = channel.receive()
        except (OSError, EOFError):
            return
        try:
            results = [load(work)(*job) for job in jobs]
        except Exception:  # the asker repeats the work, and meets the error where it can be told
            results = None
        channel.send((number, results))


def keep_freed_memory() -> None:
    """Makes glibc hold on to freed blocks, as page faults cost more than much of the arithmetic.

    It adapts its thresholds to the largest block that it has seen freed, up to 32 MiB; elsewhere this does nothing.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)

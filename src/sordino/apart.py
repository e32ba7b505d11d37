"""Processes of their own, one core each: they end with whoever started them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from typing import Any


@contextmanager
def processes(jobs: int, begin: Callable[..., None], *given: Any) -> Iterator[ProcessPoolExecutor]:
    """Yields a pool whose processes begin with `begin`, which calls `live_with_parent`.

    **Edge cases**: whatever leaves the block by an exception, an interrupt too, ends all of them. It is this process
    that does so: were they interrupted themselves, they would go on with what comes next.
    """
    with ProcessPoolExecutor(jobs, get_context("spawn"), begin, given) as pool:
        try:
            yield pool
        except BaseException:
            end(pool)
            raise


def end(pool: ProcessPoolExecutor) -> None:
    """Ends the processes of a pool in the middle of what they do."""
    pool.shutdown(wait=False, cancel_futures=True)
    for process in active_children():
        process.terminate()


def live_with_parent() -> None:
    """Leaves interrupts to the process that started this one, and ends this one as soon as that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)  # nothing is tidied up, as in a crash: a run folder is made for that

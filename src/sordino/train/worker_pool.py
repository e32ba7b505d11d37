"""Shares the chunks of a cohort out over processes of one core each.

Processes, because threads that share Python's lock hand it over at every tensor operation, and threads inside an
operation wait for each other at its end: both cost more than the small operations of local training themselves.

**Formal guarantees**: a chunk is computed by one core wherever it is computed, so its result does not depend on
whether, or when, workers are there: not in its last bit.
"""

from __future__ import annotations

import atexit
import os
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import torch

from sordino.train.worker import Worker, WorkerJob, keep_freed_memory

Parallelism = Literal["alone", "when it pays", "always"]
"""Whether to ask workers for help."""

Work = Callable[..., Any]

_PAYS_AFTER, _PAYS_FROM = 1.0, 0.004
"""Seconds of work before workers are started at all (which costs as much), and in one call before they are asked."""


@dataclass
class Worked:
    """How long this process has computed so far, for whichever trainer."""

    seconds: float = 0.0


_WORKED = Worked()


class WorkerPool:
    """This process and its workers."""

    def __init__(self, parallelism: Parallelism) -> None:
        self._parallelism = parallelism
        self._pickled: dict[int, tuple[Work, bytes | None]] = {}
        self._last: dict[int, float] = {}
        self.meanwhile: Callable[[], object] | None = None
        """Is begun once the workers know what to do, so that it does not keep them waiting."""
        keep_freed_memory()

    def each(self, work: Work, jobs: Sequence[WorkerJob]) -> list[Any]:
        """Returns `[work(*job) for job in jobs]`; jobs should cost about the same.

        **Edge cases**: results may lie in memory that the next call overwrites.
        """
        cores()
        began = time.perf_counter()
        pickled = self._portable(work) if len(jobs) > 1 else None
        workers = self._workers(work) if pickled is not None else []
        everyone = len(workers) + 1
        # neighbours stay together: stretches of a cohort are cut at equal shares of the whole work
        cuts = [len(jobs) * place // everyone for place in range(everyone + 1)]
        shares = [jobs[first:end] for first, end in pairwise(cuts)]
        for worker, share in zip(workers, shares, strict=False):
            worker.ask(pickled or b"", share)
        if self.meanwhile is not None:
            self.meanwhile()
        own, results = _alone(work, shares[-1]), list[Any]()
        for worker, share in zip(workers, shares, strict=False):
            found = worker.receive()
            if found is None:
                self._pickled[id(work)] = work, None
                found = _alone(work, share)
            results += found
        results += own
        self._last[id(work)] = (time.perf_counter() - began) * everyone
        _WORKED.seconds += self._last[id(work)]
        return results

    def _workers(self, work: Work) -> list[Worker]:
        """Returns the workers to ask now."""
        if self._parallelism == "always":
            return [worker for worker in _all_workers() if worker.ready(patience=60)]
        if self._parallelism == "alone" or _WORKED.seconds < _PAYS_AFTER or self._last.get(id(work), 0.0) < _PAYS_FROM:
            return []
        return [worker for worker in _all_workers() if worker.ready()]

    def _portable(self, work: Work) -> bytes | None:
        """Returns the work as a worker can load it, or None where it cannot."""
        if self._parallelism == "alone" or not hasattr(os, "memfd_create"):
            return None
        if id(work) not in self._pickled:
            try:
                self._pickled[id(work)] = work, pickle.dumps(work)
            except Exception:  # pickle raises whatever an object's own reduction raises
                self._pickled[id(work)] = work, None
        return self._pickled[id(work)][1]


def _alone(work: Work, jobs: Sequence[WorkerJob]) -> list[Any]:
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    return [work(*job) for job in jobs]


@cache
def cores() -> int:
    """Returns how many cores PyTorch would use by itself, and leaves it one: the others are for workers.

    For good, not only while we work: its threads go on spinning after each operation that they shared, and so would
    keep a core from a worker.
    """
    count = min(torch.get_num_threads(), os.cpu_count() or 1)
    torch.set_num_threads(1)
    return count


@cache
def _all_workers() -> list[Worker]:
    """Starts one worker for each core besides ours."""
    workers = [Worker() for _ in range(cores() - 1)]
    for worker in workers:
        atexit.register(worker.dismiss)
    return workers

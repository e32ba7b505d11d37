"""Does tasks in parallel, one process a core, each with one thread; what is done is stored at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

from papers.run_store import RunStore, StoredLine, code_version
from papers.tasks import Task, room_of
from sordino.apart import end, live_with_parent, processes
from sordino.compare.playing import ContestWatcher
from sordino.data.catalogue import DATASETS
from sordino.data.records import Records
from sordino.errors import SordinoError

_LOOK = 0.5
MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_TOP_PAD_": "100000000",
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
}
"""With these glibc keeps freed blocks of any size: rows of wide networks are asked for and given back all the time.

They move no bit of a result. The library's own processes keep blocks up to 32 MiB (`train/worker.py`).
"""


@dataclass
class TimeLimit:
    """Until when tasks may be begun and go on; clock and cores are shared with others, which it learns from."""

    minutes: float

    def __post_init__(self) -> None:
        self.began, self.cpu, self.clock = time.monotonic(), 0.0, 0.0

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.began + 60 * self.minutes - time.monotonic()

    def learn(self, cpu: float, clock: float) -> None:
        """Takes note of a task's processor seconds, and of the time that passed."""
        self.cpu, self.clock = self.cpu + cpu, self.clock + clock

    def fits(self, seconds: float) -> bool:
        """Returns whether a task of so many processor seconds should end in time, at the pace so far."""
        return seconds * max(1.0, self.clock / max(self.cpu, 1e-9) if self.clock else 1.0) <= self.left


def perform(
    tasks: Sequence[Task],
    store: RunStore,
    folder: Path,
    jobs: int,
    watcher: ContestWatcher,
    limit: TimeLimit | None = None,
    cost: Callable[[Task], float] = lambda task: 0.0,
) -> str | None:
    """Does tasks in their order, and returns why one could not be done, if so.

    **Formal guarantees**: what is done is in the store before anything else is begun in its place, so that an
    interrupt, a crash or the end of the time loses nothing but what was under way; a run among that goes on where it
    was.

    **Edge cases**: with a time limit, a task that would not end in time is left for another day, and a shorter one
    is begun in its place. One job without a limit is done in this process, on all cores.

    Args:
        tasks: what is missing.
        store: where lines are added.
        folder: room for what is under way.
        jobs: how many at once.
        watcher: is told how many are done, of how many.
        limit: until when.
        cost: the processor seconds that a task is expected to take.
    """
    if jobs == 1 and limit is None:
        return _here(tasks, store, folder, watcher)
    return _apart(list(tasks), store, folder, jobs, watcher, limit, cost)


def _here(tasks: Sequence[Task], store: RunStore, folder: Path, watcher: ContestWatcher) -> str | None:
    why = None
    for count, task in enumerate(tasks, start=1):
        try:
            store.add(task.line(store, folder), task.recipe.mechanism.name)
        except SordinoError as error:
            why = str(error)
        watcher(count, len(tasks))
    return why


def _apart(
    waiting: list[Task],
    store: RunStore,
    folder: Path,
    jobs: int,
    watcher: ContestWatcher,
    limit: TimeLimit | None,
    cost: Callable[[Task], float],
) -> str | None:
    running: dict[Future[tuple[float, Mapping[str, Any]]], tuple[Task, float]] = {}
    total, done, why = len(waiting), 0, None
    with keeping_memory(), processes(jobs, _begin) as pool:
        while waiting or running:
            while len(running) < jobs and (task := _next(waiting, limit, cost)) is not None:
                place = room_of(store.keys(task.what, task.recipe)[0], folder)
                running[pool.submit(_do, task, place)] = task, time.monotonic()
            if not running or (limit is not None and limit.left <= 0):
                break
            ended, _ = wait(running, _LOOK, FIRST_COMPLETED)
            for future in ended:
                task, began = running.pop(future)
                done += 1
                try:
                    cpu, found = future.result()
                except SordinoError as error:
                    why = str(error)
                    continue
                if limit is not None:
                    limit.learn(cpu, time.monotonic() - began)
                key, of = store.keys(task.what, task.recipe)
                line = StoredLine(key, of, task.what, task.recipe.run.seed, code_version(), cpu, found)
                store.add(line, task.recipe.mechanism.name)
            watcher(done, total)
        if running:
            end(pool)
    return why


def _next(waiting: list[Task], limit: TimeLimit | None, cost: Callable[[Task], float]) -> Task | None:
    """Takes the first task that should end in time."""
    for place, task in enumerate(waiting):
        if limit is None or limit.fits(cost(task)):
            return waiting.pop(place)
    return None


@contextmanager
def keeping_memory() -> Iterator[None]:
    """Has processes that begin meanwhile keep freed memory, where the user's environment does not say otherwise."""
    new = {name: value for name, value in MEMORY.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _begin() -> None:
    """Begins a process that does one task after the other, with one thread, and reads each data set once."""
    import torch

    live_with_parent()
    torch.set_num_threads(1)
    for name, data in list(DATASETS.items()):
        DATASETS[name] = replace(data, read=read_once(data.read))


def read_once(read: Callable[..., Records]) -> Callable[..., Records]:
    """Returns a reader that reads a data set once and hands out its records anew each time.

    A run scales its records where they are (`data/normalise.py`): were they handed out twice, the second run would get
    what the first had made of them.
    """
    kept = lru_cache(1)(read)

    @wraps(read)  # its options are read off its signature
    def fresh(*arguments: Any, **options: Any) -> Records:
        records = kept(*arguments, **options)
        return replace(records, train_x=records.train_x.clone(), test_x=records.test_x.clone())

    return fresh


def _do(task: Task, place: Path) -> tuple[float, Mapping[str, Any]]:
    return task.done(place)

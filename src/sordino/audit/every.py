"""Every audit: each mechanism in both modes and each game, several at once, each on a core of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from sordino.apart import live_with_parent, processes
from sordino.audit import cases, games
from sordino.audit.finding import Finding
from sordino.audit.run_game import GameWatcher

EveryWatcher = Callable[[int, int, str], None]
"""Is told how many parts of how many are done, and what is being audited."""
PARTS = 100
"""Parts of an audit that a watcher is told of."""
_LOOK = 0.2
_progress: Any = None  # of a process that audits: how far each audit is, written for the one that watches


@dataclass(frozen=True)
class PlannedAudit:
    """A case by its place among all cases, or a game by its name: looked up wherever it is played."""

    words: str
    place: int | None = None

    def play(self, trials: int | None, seed: int, workers: int, told: GameWatcher) -> list[Finding]:
        """Plays it, and returns what it found."""
        if self.place is None:
            return games.GAMES[self.words].play(seed, told)
        return cases.cases()[self.place].audits(trials, seed, workers, told)


def planned(mode: str | None) -> list[PlannedAudit]:
    """Returns every audit; of one mode, if that is named (games have certified mechanisms)."""
    listed = enumerate(cases.cases())
    chosen = [PlannedAudit(f"{c.mechanism}, {c.mode}", place) for place, c in listed if mode in (None, c.mode)]
    return chosen + ([] if mode == "faithful" else [PlannedAudit(name) for name in games.GAMES])


def play_every(
    audits: Sequence[PlannedAudit], jobs: int, trials: int | None, seed: int, told: EveryWatcher
) -> list[list[Finding]]:
    """Returns what each audit found, in their order; how many are played at once changes nothing of it.

    **Edge cases**: one at a time is played in this process, by two threads.
    """
    if jobs > 1 and len(audits) > 1:
        return _apart(audits, min(jobs, len(audits)), trials, seed, told)

    def part(place: int, audit: PlannedAudit) -> GameWatcher:
        return lambda done, of: told(PARTS * place + _share(done, of), PARTS * len(audits), audit.words)

    found = []
    for place, audit in enumerate(audits):
        told(PARTS * place, PARTS * len(audits), audit.words)
        found.append(audit.play(trials, seed, 2, part(place, audit)))
    return found


def _apart(
    audits: Sequence[PlannedAudit], jobs: int, trials: int | None, seed: int, told: EveryWatcher
) -> list[list[Finding]]:
    parts = get_context("spawn").Array("i", len(audits), lock=False)
    found: dict[int, list[Finding]] = {}
    with processes(jobs, _begin, parts) as pool:
        running: dict[Future[list[Finding]], int] = {
            pool.submit(_play, place, audit, trials, seed): place for place, audit in enumerate(audits)
        }
        while running:
            for future in [future for future in running if future.done()]:
                place = running.pop(future)
                found[place], parts[place] = future.result(), PARTS
            now = [audits[place].words for future, place in running.items() if future.running() and parts[place]]
            told(sum(parts), PARTS * len(audits), " · ".join(now[:jobs]))
            time.sleep(_LOOK if running else 0)
    return [found[place] for place in range(len(audits))]


def _begin(parts: Any) -> None:
    import torch

    global _progress
    live_with_parent()
    torch.set_num_threads(1)
    _progress = parts


def _play(place: int, audit: PlannedAudit, trials: int | None, seed: int) -> list[Finding]:
    def told(done: int, of: int) -> None:
        _progress[place] = max(1, _share(done, of))

    told(0, 1)
    return audit.play(trials, seed, 1, told)


def _share(done: int, of: int) -> int:
    return PARTS * done // max(1, of)

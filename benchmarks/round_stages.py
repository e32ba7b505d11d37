"""Where a round of `sordino run` spends its time beside training: stage by stage, beside bare rounds, in turns.

    python benchmarks/round_stages.py [W1] [--turns 12] [--books]

Prints medians in milliseconds. The reservation is written by a second thread while clients train; its row is that
thread's processor time, which it takes from the training wherever all cores are busy.

With `--books` clients train in the first round alone and say the same in all others, and rows without a dot
are the processor time of their thread: what remains are the books, of which a busy machine tells about the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent / "contenders"))

import ours
import whole_run
from workloads import NOISE_MULTIPLIER, WORKLOADS

import sordino.runs.loop
from sordino.server.side import ServerSide
from sordino.train import Trainer

ROUNDS = 20
"""Rounds of a turn."""
Seconds = dict[str, list[float]]


def observed(name: str, call: Callable[..., Any], clock: Callable[[], float], seconds: Seconds) -> Callable[..., Any]:
    """Returns the call, noting how long it takes by this clock, and the stages of what it returns."""

    def noting(*args: Any, **more: Any) -> Any:
        began = clock()
        result = call(*args, **more)
        seconds[name].append(clock() - began)
        for stage, took in getattr(result, "seconds", {}).items():
            seconds[f"· {stage}"].append(took)
        return result

    return noting


def watch() -> Seconds:
    """Has every round of this process observed, and returns where its times will stand."""
    seconds: Seconds = defaultdict(list)
    loop = sordino.runs.loop
    loop.play = observed("a round, played", loop.play, time.perf_counter, seconds)
    loop.round_over = observed("metrics and judgement", loop.round_over, time.perf_counter, seconds)
    ServerSide.reserve = observed(  # type: ignore[method-assign]
        "the reservation's thread (processor)", ServerSide.reserve, time.thread_time, seconds
    )
    return seconds


def watch_books() -> Seconds:
    """The same for books alone, by processor time: whoever is asked to train returns what came out the first time."""
    seconds, clock, loop = defaultdict[str, list[float]](list), time.thread_time, sordino.runs.loop
    trained, train = list[Any](), Trainer.clipped_sum

    def once(*args: Any) -> Any:
        if not trained:
            trained.append(train(*args))
        total, norms = trained[0]
        return total.clone(), norms

    Trainer.clipped_sum = once  # type: ignore[method-assign]
    loop.play = observed("a round, played", loop.play, clock, seconds)
    loop.round_over = observed("metrics and judgement", loop.round_over, clock, seconds)
    for stage, name in (("ask", "select"), ("release", "release"), ("settle", "settle"), ("adapt", "adapt")):
        setattr(ServerSide, stage, observed(name, getattr(ServerSide, stage), clock, seconds))
    ServerSide.reserve = observed("the reservation's thread", ServerSide.reserve, clock, seconds)  # type: ignore[method-assign]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workload", nargs="?", default="W1", choices=list(WORKLOADS))
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--books", action="store_true")
    asked = parser.parse_args()
    workload, seconds = WORKLOADS[asked.workload], watch_books() if asked.books else watch()
    run, bare = whole_run.Contender(workload), ours.Contender(workload)
    for contender in [run] if asked.books else [run, bare]:
        contender.play(ROUNDS, NOISE_MULTIPLIER)
    seconds.clear()
    for _ in range(asked.turns):
        took = run.play(ROUNDS, NOISE_MULTIPLIER)
        if asked.books:
            continue
        seconds["`sordino run`, a round"] += took
        seconds["bare rounds"] += bare.play(ROUNDS, NOISE_MULTIPLIER)
    table = Table("", "median, ms", title=f"{workload.name}, {asked.turns} turns of {ROUNDS} rounds")
    for name, took in sorted(seconds.items(), key=lambda item: -statistics.median(item[1])):
        table.add_row(name, f"{1e3 * statistics.median(took):.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()

"""Where a round of `sordino run` spends its time beside training: stage by stage, beside bare rounds, in turns.

    python benchmarks/round_stages.py [W1] [--turns 12]

Prints medians in milliseconds. The reservation is written by a second thread while clients train; its row is that
thread's processor time, which it takes from the training wherever all cores are busy.
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

ROUNDS = 20
"""Rounds of a turn."""
Seconds = dict[str, list[float]]


def observed(name: str, call: Callable[..., Any], clock: Callable[[], float], seconds: Seconds) -> Callable[..., Any]:
    """Returns the call, noting how long it takes by this clock, and the stages of what it returns."""

    def noting(*args: Any) -> Any:
        began = clock()
        result = call(*args)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workload", nargs="?", default="W1", choices=list(WORKLOADS))
    parser.add_argument("--turns", type=int, default=12)
    asked = parser.parse_args()
    workload, seconds = WORKLOADS[asked.workload], watch()
    run, bare = whole_run.Contender(workload), ours.Contender(workload)
    for contender in (run, bare):
        contender.play(ROUNDS, NOISE_MULTIPLIER)
    seconds.clear()
    for _ in range(asked.turns):
        seconds["`sordino run`, a round"] += run.play(ROUNDS, NOISE_MULTIPLIER)
        seconds["bare rounds"] += bare.play(ROUNDS, NOISE_MULTIPLIER)
    table = Table("", "median, ms", title=f"{workload.name}, {asked.turns} turns of {ROUNDS} rounds")
    for name, took in sorted(seconds.items(), key=lambda item: -statistics.median(item[1])):
        table.add_row(name, f"{1e3 * statistics.median(took):.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()

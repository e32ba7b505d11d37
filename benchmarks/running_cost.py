"""How long it takes to tell ε so far: sampled Gaussians of several noise levels, one after the other.

    python benchmarks/running_cost.py [--rounds N] [--levels N]

Prints milliseconds a round with a plan and without one (by the clock and of the processor: on a busy machine only the
second tells), the final ε, and what pricing it all at once takes.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
from rich.console import Console
from rich.table import Table

from sordino.account.accountants.accountant import price
from sordino.account.accountants.running import RunningCost
from sordino.events import GaussianDpEvent, PoissonSampledDpEvent

DELTA, LIMIT_MS = 1e-5, 5.0


def follow(schedule: list[PoissonSampledDpEvent], run: RunningCost) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns the milliseconds that each round took, by the clock and of the processor, and the last ε."""
    clock, processor, told = np.empty(len(schedule)), np.empty(len(schedule)), 0.0
    for place, event in enumerate(schedule):
        started, worked = time.perf_counter(), time.process_time()
        run = run.add(event)
        told = run.epsilon(DELTA)
        clock[place], processor[place] = time.perf_counter() - started, time.process_time() - worked
    return 1e3 * clock, 1e3 * processor, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--levels", type=int, default=20)
    asked = parser.parse_args()
    levels = [PoissonSampledDpEvent(0.01, GaussianDpEvent(1.03**k)) for k in range(asked.levels)]
    schedule = [levels[t % len(levels)] for t in range(asked.rounds)]
    title = f"milliseconds a round, {asked.rounds} rounds of {asked.levels} noises"
    table = Table("", "mean", "median", "slowest", "processor, mean", "ε", title=title)
    # Without a plan first: grids are remembered, and a warm start would flatter it.
    for name, run in (("no plan", RunningCost()), ("planned", RunningCost.planned(Counter(schedule)))):
        clock, processor, told = follow(schedule, run)
        times = (clock.mean(), np.median(clock), clock.max(), processor.mean())
        table.add_row(name, *(f"{one:.2f}" for one in times), f"{told:.6f}")
    started = time.perf_counter()
    told = price(schedule).epsilon(DELTA)
    table.add_row("price, all at once", f"{1e3 * (time.perf_counter() - started):.0f} once", "", "", "", f"{told:.6f}")
    Console().print(table)
    Console().print(f"wanted: below {LIMIT_MS:g} ms a round")


if __name__ == "__main__":
    main()

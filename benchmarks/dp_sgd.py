"""Measures steps of DP-SGD: ours beside Opacus 1.6 (hooks, ghost clipping) and jax_privacy 2.0; part of `make bench`.

    python benchmarks/dp_sgd.py [--turns 7] [--only W4] [--frameworks PYTHON] [--jax PYTHON] [--write]

Every contender is a process of its own that takes a step when it is told to; the driver goes round them. Opacus and
jax_privacy may live in environments of their own (the latter with torch beside it, for the same weights and records),
whose Pythons are given by `--frameworks` and `--jax`; who cannot run is left out, and says why.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from results import machine, put
from steps import STEPS, Step

HERE = Path(__file__).resolve().parent
SECTION = "Seconds a step of DP-SGD"


@dataclass
class Player:
    """One contender on one workload."""

    label: str
    process: subprocess.Popen
    moved: float
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @classmethod
    def start(cls, label: str, words: list[str], python: str) -> "Player | None":
        """Starts a contender, which takes a first step; None where it cannot (not installed, or a layer unknown)."""
        command = [python, str(HERE / "contenders" / "dp_step.py"), *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, **pipes)
        first = process.stdout.readline()
        if not first:
            reason = (process.stderr.read().strip().splitlines() or ["it said nothing"])[-1]
            print(f"{label} cannot run: {reason}", file=sys.stderr)
            return None
        return cls(label, process, json.loads(first)["moved"])

    def turn(self) -> None:
        print(file=self.process.stdin, flush=True)
        wall, processor = json.loads(self.process.stdout.readline())
        self.seconds.append(wall)
        self.processor.append(processor)


def contenders(step: Step, frameworks: str, jax: str) -> list[Player]:
    ours = ("sordino", ["sordino", step.name, "processes"], sys.executable)
    # one size alone for the GRU: 2,000 records, in tenths, took Opacus more than a minute of processor time a step
    sizes = [str(step.records)] if step.text else [str(step.records), str(step.records // 10)]
    wanted = [
        ours,
        *(
            (f"Opacus, {words}, batches of {int(size):,}", ["opacus", step.name, f"{kind}:{size}"], frameworks)
            for kind, words in (("hooks", "hooks"), ("ghost", "ghost clipping"))
            for size in sizes
        ),
        *(
            (f"jax_privacy, batches of {size:,}", ["jax_privacy", step.name, str(size)], jax)
            for size in (step.records // 10, step.records // 100)
        ),
    ]
    wanted = [ours] if step.name == "W7" else wanted
    return [player for each in wanted if (player := Player.start(*each)) is not None]


def measure(step: Step, turns: int, frameworks: str, jax: str) -> str:
    """Returns the section's text for one workload."""
    players = contenders(step, frameworks, jax)
    for turn in range(turns):
        for player in players:
            player.turn()
        print(f"{step.name}: turn {turn + 1} of {turns}", file=sys.stderr)
    for player in players:
        player.process.stdin.close()
        player.process.wait()
    text = "\n".join([f"{machine()}. Records: {step.source()}.", "", *table(players), "", goal(step, players)])
    print(f"{step.name}: {step.about}\n{text}\n")
    return text


def table(players: list[Player]) -> list[str]:
    others = [player for player in players if player.label.startswith("Opacus")]
    best = min((statistics.median(p.seconds) for p in others), default=math.nan)
    least = min((_busy(p) for p in others), default=math.nan)
    rows = [
        "| contender | median s | least s | × best of Opacus | × by processor s | processor s | length of first step |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for player in sorted(players, key=lambda p: statistics.median(p.seconds)):
        middle, busy = statistics.median(player.seconds), statistics.median(player.processor)
        by_clock, by_processor = (f"{value:.2f}" if others else "" for value in (best / middle, least / busy))
        rows.append(
            f"| {player.label} | {middle:.3f} | {min(player.seconds):.3f} | {by_clock} | {by_processor} "
            f"| {busy:.3f} | {player.moved:.5f} |"
        )
    return rows


def _busy(player: Player) -> float:
    return statistics.median(player.processor)


def goal(step: Step, players: list[Player]) -> str:
    others = [statistics.median(player.seconds) for player in players if player.label.startswith("Opacus")]
    if not others or not any(player.label == "sordino" for player in players):
        return "Opacus was not measured."
    reached = min(others) / statistics.median(next(p for p in players if p.label == "sordino").seconds)
    word = "reached" if reached >= step.goal else "not reached"
    return f"Goal: {step.goal:g} × the best of Opacus; {word}, {reached:.2f} × by medians."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7, help="steps of each contender that count")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="workloads to measure")
    parser.add_argument("--frameworks", default=sys.executable, help="Python that has Opacus installed")
    parser.add_argument("--jax", default=sys.executable, help="Python that has jax_privacy and torch installed")
    parser.add_argument("--write", action="store_true", help="write the tables into RESULTS.md")
    chosen = parser.parse_args()
    for name in chosen.only:
        text = measure(STEPS[name], chosen.turns, chosen.frameworks, chosen.jax)
        if chosen.write:
            put(SECTION, f"{name}: {STEPS[name].about}", text)


if __name__ == "__main__":
    main()

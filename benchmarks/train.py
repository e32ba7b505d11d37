"""Measures rounds of local training: ours beside the plain PyTorch loop and other frameworks, interleaved.

    python benchmarks/train.py [--turns 9] [--only W1 W3] [--frameworks PYTHON] [--write]
    python benchmarks/train.py --before CHECKOUT   (our rounds alone, beside those of an older commit's checkout)
    python benchmarks/train.py --profile W1        (which operations our own rounds spend their time in)

Every contender is a process of its own that plays when it is told to; the driver goes round them, so that whatever else
the machine does hits all of them alike. pfl and Flower may live in an environment of their own, whose Python is given
by `--frameworks` (pfl 0.6 cannot be installed beside dp-accounting 0.6); who cannot run is left out, and says why.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import IO

from workloads import CLIP_NORM, NOISE_MULTIPLIER, WORKLOADS, Workload, data_folder

HERE = Path(__file__).resolve().parent
ROUNDS = {"W1": 8, "W2": 2, "W3": 4}
"""Rounds of a turn."""
LEARN = {"W1": 30, "W2": 30, "W3": 30}
"""Rounds without noise after which accuracies are compared."""
GOALS = {"W1": 2.0, "W2": 1.6, "W3": 10.0}
"""How many times as fast as the best plain loop we want to be."""
LIMITS = """## What stands in the way

Both cores are busy in the best plain loop too, so that only work that is not done counts: see processor seconds. W1: of
our time in operations, less than half is matrix products and a quarter is gathering shuffled records (`--profile W1`);
the rest is some sixty small operations a step, whose fixed costs five clients in a process hardly share. W2: the time
is the library's own convolutions and pooling (`--profile W2`), which batching over clients does not make faster; what
is saved is autograd, and memory traffic between layers. W3 takes one step a client: no client's update is ever formed.
"""


class GaveUp(Exception):
    """A contender ended, with its last words."""


@dataclass
class Player:
    """One contender on one workload."""

    label: str
    process: subprocess.Popen
    said: IO[bytes]
    start_up: float
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    accuracy: float | None = None
    memory: float = 0.0

    @classmethod
    def start(cls, label: str, words: list[str], python: str, checkout: Path = HERE.parent) -> "Player | None":
        """Starts a contender of a checkout, or returns None where it cannot run."""
        command = [python, str(checkout / "benchmarks" / "contenders" / "serve.py"), *words]
        # no pipe: one that nobody reads fills up, and stops whoever writes to it
        said = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the player)
        source = os.environ | {"PYTHONPATH": str(checkout / "src")}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, env=source
        )
        player = cls(label, process, said, 0.0)
        try:
            player.start_up = sum(player.answer().values())
        except GaveUp as why:
            print(why, file=sys.stderr)
            return None
        return player

    def ask(self, *command: object):
        print(*command, file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self):
        told = self.process.stdout.readline()
        if not told:
            self.said.seek(0)
            lines = self.said.read().decode(errors="replace").strip().splitlines()
            raise GaveUp(f"{self.label} cannot run: {lines[-1] if lines else 'it said nothing'}")
        return json.loads(told)

    def warm_up(self, seconds: float) -> None:
        """Plays until caches are warm and helpers, if any, have been called; notes how long the first round took."""
        began = time.perf_counter()
        self.start_up += self.ask("play", 1, NOISE_MULTIPLIER)["rounds"][0]
        while time.perf_counter() - began < seconds:
            self.ask("play", 4, NOISE_MULTIPLIER)

    def turn(self, rounds: int) -> None:
        answer = self.ask("play", rounds, NOISE_MULTIPLIER)
        self.seconds.append(statistics.median(answer["rounds"]))
        self.processor += [] if answer["processor"] is None else [answer["processor"]]

    def finish(self, learn: int) -> None:
        self.memory = self.ask("memory")
        self.accuracy = self.ask("learn", learn) if learn else None
        self.process.stdin.close()
        self.process.wait()


def contenders(workload: Workload, frameworks: str) -> list[Player]:
    """Starts everybody who can play."""
    name = workload.name
    wanted = [
        ("sordino", ["ours", name], sys.executable),
        ("sordino run, with ledger and checkpoints", ["whole_run", name], sys.executable),
        ("plain loop, 1 thread", ["plain", name, "1"], sys.executable),
        ("plain loop, 2 threads", ["plain", name, "2"], sys.executable),
        ("plain loop, 2 processes", ["plain", name, "processes"], sys.executable),
        ("pfl 0.6, 1 thread", ["pfl_research", name, "1"], frameworks),
        ("pfl 0.6, 2 threads", ["pfl_research", name, "2"], frameworks),
    ]
    players = [Player.start(*each) for each in wanted]
    return [player for player in players if player is not None]


def measure(workload: Workload, turns: int, frameworks: str, flower: bool) -> list[Player]:
    players = contenders(workload, frameworks)
    for player in players:
        player.warm_up(8.0 if player.label.startswith("sordino") else 2.0)
    for turn in range(turns):
        for player in players:
            player.turn(ROUNDS[workload.name])
        print(f"{workload.name}: turn {turn + 1} of {turns}", file=sys.stderr)
    for player in players:
        # the same loop learns the same on one thread or two
        player.finish(0 if "2 threads" in player.label else LEARN[workload.name])
    players += flowers(workload, frameworks) if flower else []
    print("\n".join([workload.name, *table(players), ""]), file=sys.stderr)
    return players


def beside(workload: Workload, turns: int, before: Path) -> str:
    """Measures our rounds beside those of an older checkout, in turns, and returns both with their ratio."""
    wanted = [("now", HERE.parent), ("before", before.resolve())]
    started = [Player.start(label, ["ours", workload.name], sys.executable, where) for label, where in wanted]
    players = [player for player in started if player is not None]
    for player in players:
        player.warm_up(8.0)
    for turn in range(turns):
        for player in players if turn % 2 else reversed(players):
            player.turn(ROUNDS[workload.name])
    for player in players:
        player.finish(0)
    if len(players) < 2:
        return f"{workload.name}: one of the two cannot run"
    now, old = players
    ratios = [
        ("median", statistics.median(now.seconds) / statistics.median(old.seconds)),
        ("least", min(now.seconds) / min(old.seconds)),
        ("processor time", statistics.median(now.processor) / statistics.median(old.processor)),
    ]
    told = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios)
    return f"{workload.name}: seconds a round, now over before: {told} ({statistics.median(old.seconds):.4f} s before)"


def flowers(workload: Workload, frameworks: str) -> list[Player]:
    """Plays Flower, whose every start takes longer than all the others' turns, once at the end."""
    player = Player.start("Flower 1.41 simulation", ["flower", workload.name], frameworks)
    if player is None:
        return []
    began = time.perf_counter()
    try:
        answer = player.ask("play", 5, NOISE_MULTIPLIER)
    except GaveUp as why:  # Flower may be there, and Ray, which its simulation needs, not
        print(why, file=sys.stderr)
        return []
    player.seconds += answer["rounds"]
    player.start_up += time.perf_counter() - began - sum(answer["rounds"])
    player.finish(0)
    return [player]


def table(players: list[Player]) -> list[str]:
    """Returns the rows of a workload's table, fastest first."""
    best = min((p for p in players if p.label.startswith("plain")), key=lambda p: statistics.median(p.seconds))
    rows = [
        "| contender | median s | least s | × best plain | × by least | processor s | accuracy | start-up s | MiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for player in sorted(players, key=lambda p: statistics.median(p.seconds)):
        middle, least = statistics.median(player.seconds), min(player.seconds)
        ratios = statistics.median(best.seconds) / middle, min(best.seconds) / least
        score = "" if player.accuracy is None else f"{100 * player.accuracy:.1f} %"
        busy = f"{statistics.median(player.processor):.4f}" if player.processor else ""
        rows.append(
            f"| {player.label} | {middle:.4f} | {least:.4f} | {ratios[0]:.2f} | {ratios[1]:.2f} | {busy} "
            f"| {score} | {player.start_up:.1f} | {player.memory:.0f} |"
        )
    return rows


def goal(name: str, players: list[Player]) -> str:
    """Returns what was to be reached, and what was."""
    ours = next(p for p in players if p.label == "sordino")
    plain = min((p for p in players if p.label.startswith("plain")), key=lambda p: statistics.median(p.seconds))
    reached = statistics.median(plain.seconds) / statistics.median(ours.seconds)
    word = "reached" if reached >= GOALS[name] else "not reached"
    return f"Goal: {GOALS[name]:g} × the best plain loop; {word}, {reached:.2f} × by medians."


def profile(name: str) -> None:
    """Prints the operations of our rounds in one process, by the time that is spent in them alone."""
    sys.path.insert(0, str(HERE / "contenders"))
    import torch
    from ours import Contender

    torch.set_num_threads(1)
    contender = Contender(WORKLOADS[name], "batched")
    contender.play(3, NOISE_MULTIPLIER)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        contender.play(ROUNDS[name], NOISE_MULTIPLIER)
    print(seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=40))


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    import torch

    name = f"{len(models)} × {models[0]}" if models else platform.processor()
    load = Path("/proc/loadavg").read_text().split()[1] if Path("/proc/loadavg").exists() else "unknown"
    return (
        f"{name}, {platform.system()}, Python {platform.python_version()}, torch {torch.__version__}; "
        f"load over the last five minutes: {load}"
    )


def report(measured: dict[str, list[Player]], turns: int) -> str:
    data = "Fashion-MNIST" if data_folder() else "made-up images of Fashion-MNIST's shape (the data was not found)"
    lines = [
        "# Seconds a round of local training",
        "",
        f"`make bench` on {date.today()}. Machine: {machine()}.",
        f"Data: {data}, IID, SGD, updates clipped to {CLIP_NORM}, Gaussian noise of multiplier {NOISE_MULTIPLIER}.",
        "",
        f"Contenders took turns, {turns} each, in one run; a turn is the median of a few rounds. A round is everything",
        "from choosing the cohort to the new global weights. `×` compares with the best of the plain loops, by medians",
        "and by least times; on a busy machine processor seconds, of all cores together, tell more. Accuracy is on the",
        "test set after rounds from the same weights with the same cohorts, without noise. Start-up runs from the",
        "start of the process to the end of its first round, less reading the data. Peak memory adds up all of a",
        "contender's processes, each with the data set as it is unpacked.",
    ]
    for name, players in measured.items():
        about = WORKLOADS[name].about
        lines += ["", f"## {name}: {about}", "", *table(players), "", f"{goal(name, players)}"]
        lines += [f"Accuracy after {LEARN[name]} rounds."]
    return "\n".join([*lines, "", LIMITS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=9, help="turns of each contender")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="workloads to measure")
    parser.add_argument("--frameworks", default=sys.executable, help="Python that has pfl and Flower installed")
    parser.add_argument("--no-flower", action="store_true", help="leave Flower out, which takes minutes")
    parser.add_argument("--learn", type=int, help="rounds without noise before accuracies are compared (default: 30)")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md beside this file")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="our rounds beside those of an older commit")
    parser.add_argument("--profile", choices=WORKLOADS, help="only show what our rounds of a workload consist of")
    chosen = parser.parse_args()
    if chosen.profile:
        profile(chosen.profile)
        return
    if chosen.before:
        for name in chosen.only:
            print(beside(WORKLOADS[name], chosen.turns, chosen.before), flush=True)
        return
    LEARN.update(dict.fromkeys(LEARN, chosen.learn) if chosen.learn else {})
    measured = {
        name: measure(WORKLOADS[name], chosen.turns, chosen.frameworks, not chosen.no_flower) for name in chosen.only
    }
    text = report(measured, chosen.turns)
    print(text)
    if chosen.write:
        results = HERE / "RESULTS.md"
        parts = re.split(r"(?m)^(?=# )", results.read_text()) if results.exists() else []
        others = [part for part in parts if part.strip() and not part.startswith(text.splitlines()[0] + "\n")]
        results.write_text("\n".join([text, *others]))


if __name__ == "__main__":
    main()

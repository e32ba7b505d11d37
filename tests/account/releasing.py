"""A small run that reserves, releases and settles, to be killed at any moment; and the one who kills it.

Run as a program (one start of Python for all kills): forks a child that releases, kills it with SIGKILL after a random
time, lets the next child resume, and reports what the ledger says beside what was released.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from sordino.account.ledger.ledger import Ledger
from sordino.events import Charge, GaussianDpEvent, Guarantee, PoissonSampledDpEvent

POPULATION = 40
SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
CHARGES = (
    Charge(SERVER, GaussianDpEvent(2.0)),
    Charge(OUTSIDER, PoissonSampledDpEvent(0.2, GaussianDpEvent(2.0)), "eligible"),
)


def cohort(round_: int) -> np.ndarray:
    return np.random.default_rng(round_).choice(POPULATION, 8, replace=False)


def release(folder: Path, repeatable: bool, rounds: int | None) -> None:
    """Plays rounds until killed (or until `rounds` are done), going on after the last round that was released."""
    marks = folder / "released"
    with Ledger.open(folder / "ledger.db", "federation", POPULATION, create=True) as ledger:
        # The last round is played again: whether its settlement was written is not known.
        start = max(0, len(read_marks(folder)) - 1)
        for number in range(start, rounds or 10**9):
            reservation = ledger.reserve("run", number, cohort(number), CHARGES, repeatable=repeatable)
            with marks.open("a") as file:
                file.write(f"{number}\n")
            ledger.settle(reservation, CHARGES, digest=f"bits of round {number}" if repeatable else os.urandom(8).hex())


def read_marks(folder: Path) -> list[int]:
    """Returns every release that happened, in order; a cut last line was never released in full, but counts."""
    path = folder / "released"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def shortfall(folder: Path, repeatable: bool) -> int:
    """Returns by how many messages the ledger shows less than what left the clients (0 is right)."""
    marks = read_marks(folder)
    released = set(marks) if repeatable else marks
    sent: Counter[int] = Counter()
    for number in released:
        sent.update(int(client) for client in cohort(number))
    with Ledger.open(folder / "ledger.db", "federation", POPULATION, create=True) as ledger:
        ledger.verify()
        participations = ledger.participations
        rounds = sum(ledger.book(OUTSIDER).histories(np.array([0]))[0].values())
    missing = sum(max(0, count - int(participations[client])) for client, count in sent.items())
    return missing + max(0, len(released) - rounds)


def overcharge(folder: Path) -> int:
    """Returns how many reservations of a repeatable run were charged more than once (0 is right)."""
    with Ledger.open(folder / "ledger.db") as ledger:
        return sum(count - 1 for count in Counter(entry.round_ for entry in ledger.entries).values())


def main(folder: Path, kills: int, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    report = Counter(kills=0, losses=0, corrupt=0, unresumed=0, overcharged=0, releases=0)
    for run in range(max(1, kills // 10)):
        place, repeatable = folder / f"run{run}", run % 2 == 0
        place.mkdir()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                try:
                    release(place, repeatable, None)
                finally:
                    os._exit(1)
            # Short times hit the creation of the ledger and its first rounds, long ones the steady state.
            time.sleep(rng.choice([0.004, 0.03, 0.08]) * rng.random() * 2)
            os.kill(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            report["kills"] += status == -signal.SIGKILL
            try:
                report["losses"] += shortfall(place, repeatable)
            except Exception:
                report["corrupt"] += 1
        before = len(read_marks(place))
        release(place, repeatable, before + 3)
        report["unresumed"] += len(read_marks(place)) < before + 3
        report["losses"] += shortfall(place, repeatable)
        report["overcharged"] += overcharge(place) if repeatable else 0
        report["releases"] += len(read_marks(place))
    return dict(report)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))

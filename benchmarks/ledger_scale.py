"""How the ledger scales: a million clients, a thousand rounds of a thousand clients.

    python benchmarks/ledger_scale.py [--clients N] [--rounds N] [--cohort N]

Prints one table: time to record a round (durably), ε of every client for each promise, time to ask who can still pay,
size of the database, time to open it again and to verify it (rows, prices, published heads). Three kinds of noise:
constant, a different one every round (no two clients then share a history), and record-level with sampled batches.
Below it: what it costs that clients have names, and that the ledger knows what each of them holds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from sordino.account.certificate.certificate import certify
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.ledger import Ledger
from sordino.events import Charge, GaussianDpEvent, Guarantee, PoissonSampledDpEvent, SelfComposedDpEvent

SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
RECORD = Guarantee("record", "server", "add_remove")
LIMITS = {"record a round": 0.05, "ε of every client": 5.0, "database, MB": 200.0}


def constant(round_: int, rate: float) -> list[Charge]:
    outsider = PoissonSampledDpEvent(rate, GaussianDpEvent(1.0))
    return [Charge(SERVER, GaussianDpEvent(1.0)), Charge(OUTSIDER, outsider, "eligible")]


def falling(round_: int, rate: float) -> list[Charge]:
    noise = GaussianDpEvent(4.0 * 0.999**round_)
    return [Charge(SERVER, noise), Charge(OUTSIDER, PoissonSampledDpEvent(rate, GaussianDpEvent(1.0)), "eligible")]


def records(round_: int, rate: float) -> list[Charge]:
    return [Charge(RECORD, SelfComposedDpEvent(PoissonSampledDpEvent(0.05, GaussianDpEvent(1.0)), 20))]


def measure(make: Callable[[int, float], list[Charge]], clients: int, rounds: int, cohort: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        recorded, asked, priced = [], [], []
        with Ledger.open(path, "benchmark", clients, create=True) as ledger:
            for charge in make(0, cohort / clients):
                ledger.book(charge.guarantee)  # live from the start, as in a run that asks every round
            for number in range(rounds):
                chosen, charges = rng.choice(clients, cohort, replace=False), make(number, cohort / clients)
                started = time.perf_counter()
                reservation = ledger.reserve("run", number, chosen, charges)
                recorded.append(time.perf_counter() - started)
                ledger.settle(reservation, charges)
            for guarantee in ledger.guarantees:
                started = time.perf_counter()
                ledger.book(guarantee).prices(1e-5)
                priced.append(time.perf_counter() - started)
            started = time.perf_counter()
            ledger.affordable(charges, Budget(8.0, 1e-5))
            asked.append(time.perf_counter() - started)
            started = time.perf_counter()
            certify(ledger, 1e-5, budget=Budget(8.0, 1e-5))
            certified = time.perf_counter() - started
        size = path.stat().st_size / 1e6
        started = time.perf_counter()
        with Ledger.open(path, write=False) as ledger:
            opened = time.perf_counter() - started
            started = time.perf_counter()
            ledger.verify()
            verified = time.perf_counter() - started
    return {
        "record a round": float(np.median(recorded)),
        "record, slowest of 100": float(np.quantile(recorded, 0.99)),
        "ε of every client": max(priced),
        "who can still pay": max(asked),
        "certificate": certified,
        "open again": opened,
        "verify": verified,
        "database, MB": size,
    }


def named(clients: int) -> dict[str, float]:
    """Returns the seconds to open a ledger with names and holdings: first, again, and for half of the clients."""
    names, found = [f"client {number}" for number in range(clients)], {}
    holdings = [name.encode() for name in names]
    half = np.random.default_rng(0).permutation(clients)[: max(1, clients // 2)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        some = [names[k] for k in half], [holdings[k] for k in half]
        for what, (who, held) in {"first": (names, holdings), "again": (names, holdings), "half of them": some}.items():
            started = time.perf_counter()
            Ledger.open(path, "benchmark", who, create=True, holders=held).close()
            found[f"named, {what}"] = time.perf_counter() - started
        found["database, MB"] = path.stat().st_size / 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--cohort", type=int, default=1000)
    options = parser.parse_args()
    kinds = {"constant noise": constant, "noise of every round its own": falling, "records, sampled batches": records}
    found = {name: measure(make, options.clients, options.rounds, options.cohort) for name, make in kinds.items()}
    table = Table(
        title=f"{options.clients} clients × {options.rounds} rounds of {options.cohort}", title_justify="left"
    )
    table.add_column("seconds, unless said")
    for name in kinds:
        table.add_column(name, justify="right")
    table.add_column("wanted", justify="right")
    for row in next(iter(found.values())):
        limit = f"< {LIMITS[row]:g}" if row in LIMITS else ""
        table.add_row(row, *(f"{numbers[row]:.3g}" for numbers in found.values()), limit)
    Console(width=120).print(table)
    told = ", ".join(f"{what} {seconds:.3g}" for what, seconds in named(options.clients).items())
    Console(width=120).print(f"opening with {options.clients} clients, seconds: {told}")


if __name__ == "__main__":
    main()

"""How much memory, disk and time the private rows of stateful clients cost (fed_cad: two vectors a client).

    python benchmarks/store.py                       a tenth of the full scale: 10,000 clients, 2.1 GB of disk
    python benchmarks/store.py --clients 100000      the full scale: 100,000 clients × 26,010 parameters, 21 GB of disk

Every client takes part at least once (in order), then random cohorts do. Memory is the growth of the peak resident set
of this process over what it was before the first row: rows are not mapped, so pages of the file are not counted in it.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from sordino.runs.client_store import ClientStore


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(folder: Path, clients: int, parameters: int, cohort: int, rounds: int) -> dict[str, float]:
    width = 2 * parameters + 2
    store, rng = ClientStore(folder / "clients.f32"), np.random.default_rng(0)
    rows = torch.from_numpy(rng.standard_normal((cohort, width), dtype=np.float32))
    before, spent = megabytes(), []
    firsts = [np.arange(start, min(start + cohort, clients)) for start in range(0, clients, cohort)]
    later = [np.sort(rng.choice(clients, cohort, replace=False)) for _ in range(rounds)]
    for asked in firsts + later:
        began = time.perf_counter()
        _, known = store.read(asked)
        store.write(asked, rows[: len(asked)])
        store.commit()
        spent.append(time.perf_counter() - began)
    assert known.all()
    return {
        "clients": clients,
        "row_kb": width * 4 / 1e3,
        "rows_mb": clients * width * 4 / 1e6,
        "disk_mb": store.path.stat().st_size / 1e6,
        "memory_mb": megabytes() - before,
        "seconds_a_first_round": float(np.median(spent[: len(firsts)])),
        "seconds_a_later_round": float(np.median(spent[len(firsts) :])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--parameters", type=int, default=26_010)
    parser.add_argument("--cohort", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        told = measure(Path(folder), chosen.clients, chosen.parameters, chosen.cohort, chosen.rounds)
    if chosen.json:
        print(json.dumps(told))
    else:
        print("\n".join(f"{name:>22}  {value:,.1f}" for name, value in told.items()))


if __name__ == "__main__":
    main()

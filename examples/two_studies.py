"""Two studies on one ledger: who takes part in both pays for both, and the second plans with what is left.

python examples/two_studies.py
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import torch

import sordino
from sordino.errors import SordinoWarning


def records(names: list[str]) -> sordino.Federation:
    """Returns what these people hold: ten records each, the same in every study."""
    x = torch.cat([torch.randn(10, 8, generator=torch.Generator().manual_seed(int(name[1:]))) for name in names])
    owners = [name for name in names for _ in range(10)]
    return sordino.Federation.of(x, (x[:, :4].sum(1) > 0).long(), clients=owners, test=None, name="panel")


def study(names: list[str], epsilon: float, ledger: Path, out: Path) -> sordino.Outcome:
    """Trains on these people under a budget that counts everything they ever paid for on this ledger."""
    return sordino.run(
        federation=records(names),
        public={"population": len(names), "records": 10 * len(names), "classes": 2},
        mechanism={"name": "dp_fedavg", "clip_norm": 1.0},
        budget={"epsilon": epsilon, "clients": {names[0]: 0.9 * epsilon}},
        ledger={"path": ledger},
        run={"rounds": 8},
        out=out,
    )


def main(folder: Path) -> tuple[sordino.Outcome, sordino.Outcome]:
    """Plays a study of p0 … p59, and one of p40 … p99: twenty take part in both, forty are new."""
    first = study([f"p{k}" for k in range(60)], 2.0, folder / "ledger.db", folder / "first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SordinoWarning)  # it says what was spent, and how noise is planned
        second = study([f"p{k}" for k in range(40, 100)], 4.0, folder / "ledger.db", folder / "second")
    return first, second


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as aside:
        for told in main(Path(aside)):
            print(told.rounds, "rounds", told.certificate)

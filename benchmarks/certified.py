"""The certified ε of docs/mechanisms.md, from selection and ledger alone: every round is charged, nothing is trained.

    python benchmarks/certified.py [--only geometric ...] [--seed 0]

For each recipe of the table: cohorts are drawn as in a run of that seed, releases are reserved and settled at their
quotes, nobody vanishes, and the certificate is computed from the ledger. Where noise follows releases (a filter, a
plateau) the schedule is the planned one; what is certified then is the filter's promise.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch

from mechanisms import ROWS, Row
from sordino.errors import BudgetExceeded, SordinoError
from sordino.random.streams import Streams
from sordino.runs.books import charging_for
from sordino.runs.setup import assemble
from sordino.runs.stream import stream_name
from sordino.terms import Terms, Turn


def certified(row: Row, seed: int) -> list[tuple[str, str, str, float | None]]:
    """Returns (unit, observer, adjacency, ε) of each promise."""
    recipe = row.of(seed)
    context = assemble(recipe)
    mechanism, everybody = context.mechanism, np.ones(context.federation.population, bool)
    stopped = "rounds"
    with tempfile.TemporaryDirectory() as aside, charging_for(context, Path(aside) / "ledger.db", "run") as charging:
        # what a run on a fresh ledger draws from
        randomness = Streams(stream_name(context, charging.ledger, (False, False, False)))
        for number in range(1, recipe.run.rounds + 1):
            knobs = mechanism.adapter.planned(number)
            if mechanism.opening is not None:  # whatever it showed: scores decide who pays, and nobody over budget does
                knobs = knobs.plus({"scores": torch.zeros(len(everybody))})
            charges = mechanism.quote(knobs, number)
            try:
                eligible = charging.eligible(number, charges, everybody)
            except BudgetExceeded:
                stopped = "budget"
                break
            terms = Terms(number, context.weights, knobs)
            cohort = mechanism.selector.select(Turn(terms, randomness), eligible.allowed)
            payers = cohort[eligible.allowed[cohort]]  # who is drawn and cannot pay says zero
            charging.ledger.settle(charging.reserve(number, payers, charges, eligible), charges, payers)
        certificate = charging.certificate(stopped)
    return [(one.unit, one.observer, one.adjacency, one.epsilon) for one in certificate.entries]


def main() -> None:
    """Prints a line for each promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="recipes by name; all unless told")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for row in ROWS:
        if arguments.only and row.recipe not in arguments.only:
            continue
        name = " ".join([row.recipe, *row.settings])
        try:
            found = certified(row, arguments.seed)
        except SordinoError as error:
            print(f"{name}: {error}", flush=True)
            continue
        for unit, observer, adjacency, epsilon in found:
            told = "∞" if epsilon is None else f"{epsilon:.4g}"
            print(f"{name}: {unit} against {observer} ({adjacency}): ε = {told}", flush=True)


if __name__ == "__main__":
    main()

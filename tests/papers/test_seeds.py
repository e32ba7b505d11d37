"""Leads over seeds are paired, and the number of seeds follows the experiment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from papers.catalogue import EXPERIMENTS
from papers.experiment_runner import ExperimentRunner, SeedRuns, recipe_of

from sordino.report.reading import RunView


def ended(*ends: float) -> SeedRuns:
    plain = RunView(Path("played"), recipe_of([]), {}, (), ())
    return SeedRuns(tuple(replace(plain, rounds=({"round": 1, "accuracy": end},)) for end in ends))


def test_a_lead_is_that_of_each_seed_over_the_same_seed() -> None:
    mean, spread = ended(0.9, 0.5, 0.1).lead(ended(0.8, 0.4, 0.0))
    assert (mean, spread) == (pytest.approx(0.1), pytest.approx(0.0, abs=1e-12))
    mean, spread = ended(0.9, 0.5).lead(ended(0.8, 0.6))
    assert (mean, spread) == (pytest.approx(0.0, abs=1e-12), pytest.approx(np.std([0.1, -0.1], ddof=1)))
    assert ended(0.9).lead(ended(0.5)) == (pytest.approx(0.4), 0.0)


@pytest.mark.parametrize(("id_", "seeds"), [("baek-fig1", 3), ("adpfl-fig4", 5), ("adpfl-table2-readings", 5)])
def test_full_runs_have_three_seeds_and_a_dpfl_five(id_: str, seeds: int) -> None:
    full = ExperimentRunner(Path(), quick=False, usual_seeds=EXPERIMENTS[id_].seeds)
    assert full.repeats == seeds
    assert replace(full, quick=True).repeats == 1 and replace(full, seeds=2).repeats == 2

"""Leads over seeds are paired, and the number of seeds follows the experiment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from papers.catalogue import EXPERIMENTS
from papers.experiment_runner import ExperimentRun, ExperimentRunner, SeedRuns, recipe_of
from papers.printed_line import statement
from papers.record import ExperimentRecord
from papers.run_store import RunStore

from papers import pages


def ended(*ends: float) -> SeedRuns:
    plain = ExperimentRun(recipe_of([]), ())
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


def test_a_quick_form_says_how_many_seeds_it_has() -> None:
    experiment = EXPERIMENTS["baek-fig1"]
    assert experiment.quick_form() == "one seed, 4 of 100 rounds"
    assert experiment.quick_form(3) == "3 seeds, 4 of 100 rounds"
    line = statement("a", "b", "c", holds=False)
    assert experiment.explained(line, quick=True, seeds=3).why.startswith("quick: 3 seeds")


@pytest.mark.parametrize(
    ("scale", "seeds", "short", "whole"),
    [("full", 3, (), True), ("full", 1, (), False), ("quick", 3, (), False), ("full", 3, ("CIFAR-10",), False)],
)
def test_a_record_with_fewer_seeds_is_not_whole(scale: str, seeds: int, short: tuple[str, ...], whole: bool) -> None:
    experiment = EXPERIMENTS["baek-fig1"]
    kept = ExperimentRecord("baek-fig1", scale, seeds, None, "0", (), (), (), short)
    assert kept.whole(experiment) == whole
    told = pages.pages({"baek-fig1": kept}, {"baek-fig1": experiment}, RunStore())["README.md"]
    assert ("What is not full yet" in told) != whole and (seeds > 1 or "seeds: 1 of 3" in told)

"""Zhao et al. (2021), Table 2 on MNIST under declared readings: pixels, and how long a participant trains."""

from __future__ import annotations

from papers.a_dpfl import CLIP, COMMON, DATA, PRIVATE, SHARED, SKEWED
from papers.cited import A_DPFL
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.readings import PIXEL_SCALE, OpenChoice, PrintedTarget, ReadingGrid, read_all

LENGTH = OpenChoice("local passes", {"1 pass": ["train.epochs=1"], "5 passes": ["train.epochs=5"]})
GRID = ReadingGrid((PIXEL_SCALE, LENGTH))


def table2(runner: ExperimentRunner) -> ExperimentResult:
    """Table 2, MNIST, with skewed labels and IID."""
    base = [*COMMON, *DATA["MNIST"], *PRIVATE, CLIP["MNIST"], f"run.rounds={runner.size(50, 5)}"]
    targets = {"skewed": PrintedTarget([*base, *SKEWED], 0.942), "IID": PrintedTarget(base, 0.989)}
    return read_all(runner, "adpfl-table2-readings", "A-DPFL, Table 2: readings on MNIST", GRID, targets)


EXPERIMENTS = (
    Experiment(
        "adpfl-table2-readings", A_DPFL, "Table 2, §6.3", "Readings: MNIST", table2, seeds=5,
        choices=(*GRID.told(), *SHARED[1:2], *SHARED[3:]), shorter="one seed, 5 of 50 rounds",
        doubt="how many take part, how long they train and α are not stated, and decide how fast it learns",
    ),
)  # fmt: skip

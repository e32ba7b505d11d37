"""Xue et al. (2023), Fig. 3 under declared readings of the noise: with and without √d, over the batch or not."""

from __future__ import annotations

from papers.cited import XUE
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.readings import PIXEL_SCALE, OpenChoice, PrintedTarget, ReadingGrid, read_all
from papers.xue_scene import CLIENTS, DELTA, MNIST, NAMES, OURS, client
from sordino.account.accountants.published import xue_participations

HIGH = {"sgd": 0.8758, "momentum": 0.9045, "adam": 0.9498, "rmsprop": 0.9685}
"""Printed accuracies of Fig. 3 at ε = 0.5, by optimiser."""
ROOT = OpenChoice("√d", {"√d": ["mechanism.root_dimension=true"], "no √d": ["mechanism.root_dimension=false"]})
BATCH = OpenChoice(
    "sensitivity", {"Δ": ["mechanism.sensitivity_divisor=1"], "Δ over the batch": ["mechanism.sensitivity_divisor=75"]}
)
GRID = ReadingGrid((ROOT, BATCH, PIXEL_SCALE))


def fig3(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 3 at ε = 0.5, for all the rounds that Eq. (12) allows; quick: RMSprop alone."""
    rounds = f"run.rounds={xue_participations(0.5, 26, DELTA)}"
    chosen = runner.size(tuple(HIGH), ("rmsprop",))
    targets = {
        NAMES[optimizer]: PrintedTarget(
            [*MNIST, *OURS, "mechanism.noise_multiplier=26", *client(optimizer, 16), rounds], HIGH[optimizer]
        )
        for optimizer in chosen
    }
    return read_all(runner, "xue-fig3-readings", "Xue et al., Fig. 3: readings, ε = 0.5", GRID, targets)


EXPERIMENTS = (
    Experiment(
        "xue-fig3-readings", XUE, "Fig. 3, §VI-B", "Readings: noise and pixels at ε = 0.5", fig3,
        choices=(*GRID.told(), *CLIENTS), shorter="one seed, RMSprop alone",
        doubt="the sampling ratio, the sizes of the layers and the rounds are not stated",
    ),
)  # fmt: skip

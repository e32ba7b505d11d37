"""Baek et al. (2021), Fig. 1 and 4, under declared readings: how pixels are scaled decides what noise leaves."""

from __future__ import annotations

from papers.baek import MNIST, OTHER_DATA, PLAIN, SHARED, noise_on_mnist, noise_on_writers
from papers.cited import BAEK
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.readings import PIXEL_SCALE, PrintedTarget, ReadingGrid, read_all

GRID = ReadingGrid((PIXEL_SCALE,))
PRINTED = {0.5: 0.9406, 1.0: 0.9289, 1.5: 0.9013, 2.0: 0.8218}


def fig1(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 1 under every reading; quick: z = 2 alone, in full length."""
    levels = runner.size(tuple(PRINTED), (2.0,))
    targets = {f"z = {z:g}": PrintedTarget([*noise_on_mnist(z), "run.rounds=100"], PRINTED[z]) for z in levels}
    silence = {"no noise": PrintedTarget([*MNIST, *PLAIN, "run.rounds=100"], 0.9615)}
    title = "Baek et al., Fig. 1: readings"
    return read_all(runner, "baek-fig1-readings", title, GRID, targets | runner.size(silence, {}))


def fig4(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4 (by writer) under every reading."""
    rounds = f"run.rounds={runner.size(200, 10)}"
    printed = {1.0: 0.8205, 1.5: 0.5217}
    targets = {f"z = {z:g}": PrintedTarget([*noise_on_writers(z), rounds], value) for z, value in printed.items()}
    return read_all(runner, "baek-fig4-readings", "Baek et al., Fig. 4: readings", GRID, targets)


def dropout_layer(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 1 with the dropout layer that the paper speaks of, of rate 0.5; quick: z = 2 alone, in full length."""
    levels = runner.size((1.0, 2.0), (2.0,))
    layer = ["model.name=cnn_tfp_dropout", "run.rounds=100"]
    targets = {f"z = {z:g}": PrintedTarget([*noise_on_mnist(z), *layer], PRINTED[z]) for z in levels}
    silence = {"no noise": PrintedTarget([*MNIST, *PLAIN, *layer], 0.9615)}
    title = "Baek et al., Fig. 1: with a dropout layer"
    return read_all(runner, "baek-fig1-dropout", title, GRID, targets | runner.size(silence, {}))


CHOICES = (*GRID.told(), *SHARED[1:])
LAYER = (
    "Declared before anything was run: a dropout layer of rate 0.5 between the two dense layers. The paper has one "
    "there and does not state its rate; the figures and baek-fig1-readings have none."
)
EXPERIMENTS = (
    Experiment(
        "baek-fig1-readings", BAEK, "Fig. 1, §VI-A-1", "Readings: noise on MNIST", fig1, choices=CHOICES,
        doubt="the paper's dropout layer is left out, its rate not being stated",
        shorter="one seed, z = 2 alone (100 rounds)",
    ),
    Experiment(
        "baek-fig1-dropout", BAEK, "Fig. 1, §VI-A-1", "Readings: the dropout layer", dropout_layer,
        choices=(LAYER, *GRID.told(), *SHARED[1:4]), doubt="the rate of the dropout layer is not stated",
        shorter="one seed, z = 2 alone (100 rounds)",
    ),
    Experiment(
        "baek-fig4-readings", BAEK, "Fig. 4, §VI-B", "Readings: by writer", fig4, choices=CHOICES,
        doubt=OTHER_DATA, shorter="one seed, 10 of 200 rounds",
    ),
)  # fmt: skip

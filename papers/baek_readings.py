"""Baek et al. (2021), Fig. 1 and 4, under declared readings: how pixels are scaled decides what noise leaves."""

from __future__ import annotations

from papers.baek import MNIST, OTHER_DATA, PLAIN, SHARED, noise_on_mnist, noise_on_writers
from papers.cited import BAEK
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.readings import PIXEL_SCALE, OpenChoice, PrintedTarget, ReadingGrid, read_all

GRID = ReadingGrid((PIXEL_SCALE,))
LAYER = OpenChoice(
    "dropout layer", {"no dropout": ["model.name=cnn_tfp"], "dropout of rate 0.5": ["model.name=cnn_tfp_dropout"]}
)
LAYERS = ReadingGrid((LAYER, PIXEL_SCALE))
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
    """Fig. 1 with and without a dropout layer, at z = 2, where readings lie farthest apart, and without noise.

    Quick: z = 2 alone, 20 of 100 rounds.
    """
    rounds = f"run.rounds={runner.size(100, 20)}"
    targets = {"z = 2": PrintedTarget([*noise_on_mnist(2.0), rounds], PRINTED[2.0])}
    silence = {"no noise": PrintedTarget([*MNIST, *PLAIN, rounds], 0.9615)}
    title = "Baek et al., Fig. 1: with and without a dropout layer"
    return read_all(runner, "baek-fig1-dropout", title, LAYERS, targets | runner.size(silence, {}))


CHOICES = (*GRID.told(), *SHARED[1:])
BETWEEN = (
    "The paper has a dropout layer between the two dense layers and does not state its rate; the figures and "
    "baek-fig1-readings have none. Of Fig. 1 the noise with which readings lie farthest apart, and none."
)
EXPERIMENTS = (
    Experiment(
        "baek-fig1-readings", BAEK, "Fig. 1, §VI-A-1", "Readings: noise on MNIST", fig1, choices=CHOICES,
        doubt="the paper's dropout layer is left out, its rate not being stated",
        shorter="one seed, z = 2 alone (100 rounds)",
    ),
    Experiment(
        "baek-fig1-dropout", BAEK, "Fig. 1, §VI-A-1", "Readings: the dropout layer", dropout_layer,
        choices=(*LAYERS.told(), BETWEEN, *SHARED[1:4]), doubt="the rate of the dropout layer is not stated",
        shorter="one seed, z = 2 alone, 20 of 100 rounds",
    ),
    Experiment(
        "baek-fig4-readings", BAEK, "Fig. 4, §VI-B", "Readings: by writer", fig4, choices=CHOICES,
        doubt=OTHER_DATA, shorter="one seed, 10 of 200 rounds",
    ),
)  # fmt: skip

"""What the experiments of Xue et al. (2023) share: clients, the two readings of the noise, and how they are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordino.reproduce.bench import UNBOUND, Bench, Runs
from sordino.reproduce.experiment import Experiment, Finding
from sordino.reproduce.line import Line, accuracy, impossible
from sordino.reproduce.papers import XUE

NAMES = {"sgd": "SGD", "momentum": "Momentum", "adam": "Adam", "rmsprop": "RMSprop"}
RATES = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001, "rmsprop": 0.001}
MNIST = ["data.name=mnist", "model.name=cnn_xue", "train.batch_size=75", UNBOUND]
FASHION = ["data.name=fashion-mnist", "model.name=cnn_xue", "train.batch_size=75", UNBOUND]
CIFAR = ["data.name=cifar10", "model.name=cnn_xue_cifar", "train.batch_size=62", UNBOUND]
OURS = ["mechanism.name=component_adaptive", "mechanism.mode=faithful"]
READINGS = ("as printed", "over the batch")
SHARED = (
    "Sizes of the layers are not stated: 10 and 20 channels of 5 × 5, pooling, 50 units; on CIFAR-10 3 × 3, 32 and 64.",
    "The sampling ratio, so the batch, is not stated: 75 of a client's 1,200 images, so that 16 steps are one pass.",
    "Two readings of the noise: √d·σ0·Δ as printed, and Δ over the batch, which the text on fewer records suggests.",
)
DROWNED = (
    "√d·σ0·β is some 4,200 times each weight (56 times, over the batch), and averaging 50 clients takes away a factor "
    "of 7 only: no model survives one round of it"
)


LEARNT = 0.2
"""Ten classes: what stays below this has learnt nothing to speak of."""


def client(optimizer: str, steps: int, clients: int = 50) -> list[str]:
    """Returns what a client does: the paper's optimiser, and K steps."""
    local = [f"train.optimizer={optimizer}", f"train.learning_rate={RATES[optimizer]}", f"train.steps={steps}"]
    return [*local, "train.momentum=0.9", "train.decay=0.9", f"partition.clients={clients}"]


def ours(sigma0: float, reading: str, batch: int = 75) -> list[str]:
    """Returns the printed mechanism in one reading: the sensitivity as it is printed, or divided by the batch."""
    divisor = 1.0 if reading == READINGS[0] else float(batch)
    return [*OURS, f"mechanism.noise_multiplier={sigma0}", f"mechanism.sensitivity_divisor={divisor}"]


def experiment(
    id_: str,
    place: str,
    title: str,
    find: Callable[[Bench], Finding],
    shorter: str,
    choices: tuple[str, ...] = SHARED,
) -> Experiment:
    """Returns an experiment of this paper."""
    doubt = "the sampling ratio, the sizes of the layers and the rounds are not stated"
    return Experiment(id_, XUE, place, title, find, choices=choices, doubt=doubt, shorter=shorter)


def both_readings(
    bench: Bench,
    data: list[str],
    optimizers: tuple[str, ...],
    steps: int,
    sigma0: float,
    rounds: int,
    batch: int = 75,
) -> dict[str, dict[str, Runs]]:
    """Plays both readings for each optimiser."""
    plans = {
        f"{optimizer}/{name}": [*data, *client(optimizer, steps), *ours(sigma0, name, batch), f"run.rounds={rounds}"]
        for optimizer in optimizers
        for name in READINGS
    }
    runs = bench.play(plans)
    return {optimizer: {name: runs[f"{optimizer}/{name}"] for name in READINGS} for optimizer in optimizers}


def judged(quantity: str, printed: float, readings: Mapping[str, Runs]) -> Line:
    """Judges the reading that comes nearest; where none is near, says that the noise leaves nothing."""
    ends = {name: runs.last() for name, runs in readings.items()}
    near = min(ends.values(), key=lambda end: abs(end[0] - printed))
    if abs(near[0] - printed) <= 0.02:
        return accuracy(quantity, printed, *near)
    shown = ", ".join(f"{100 * mean:.2f} % ({name})" for name, (mean, _) in ends.items())
    return impossible(quantity, f"{100 * printed:.2f} %", shown, DROWNED)

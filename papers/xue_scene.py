"""What the experiments of Xue et al. (2023) share: clients, the two readings of the noise, and how they are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from papers.cited import XUE
from papers.experiment import PIXELS, Experiment, ExperimentResult
from papers.experiment_runner import UNBOUND, ExperimentRunner, SeedRuns
from papers.noise import cohort, times
from papers.printed_line import PrintedLine, accuracy, impossible, joined, statement
from sordino.account.accountants.published import xue_participations

DELTA = 1e-5
NAMES = {"sgd": "SGD", "momentum": "Momentum", "adam": "Adam", "rmsprop": "RMSprop"}
RATES = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001, "rmsprop": 0.001}
MNIST = ["data.name=mnist", "model.name=cnn_xue", "train.batch_size=75", UNBOUND]
FASHION = ["data.name=fashion-mnist", "model.name=cnn_xue", "train.batch_size=75", UNBOUND]
CIFAR = ["data.name=cifar10", "model.name=cnn_xue_cifar", "train.batch_size=62", UNBOUND]
OURS = ["mechanism.name=component_adaptive", "mechanism.mode=faithful"]
READINGS = ("as printed", "over the batch")
CLIENTS = (
    "Sizes of the layers are not stated: 10 and 20 channels of 5 × 5, pooling, 50 units; on CIFAR-10 3 × 3, 32 and 64.",
    "The sampling ratio, so the batch, is not stated: a sixteenth of a client's images, so that 16 steps are one pass.",
    PIXELS,
    "What keeps Adam and RMSprop from dividing by zero is printed as 10e-8, so 1e-7, under RMSprop's root (for Adam "
    "under it and beside it): ours is added to the root, as in PyTorch.",
    "The paper averages ten experiments, for which every figure would take more than an hour of one core; ours are as "
    "many as the seeds that are told.",
    "K local updates are K steps, as the text has it; k of Algorithm 3 runs from 0 to K, which would be one more.",
)
SHARED = (
    *CLIENTS,
    "Two readings of the noise: √d·σ0·Δ as printed, and Δ over the batch, which the text on fewer records suggests.",
    "Rounds are not stated: as many as Eq. (12) allows; Algorithm 2 would end with the first that it does not allow.",
)
LEARNT = 0.2
"""Ten classes: what stays below this has learnt nothing to speak of."""


def client(optimizer: str, steps: int, clients: int = 50) -> list[str]:
    """Returns what a client does: the paper's optimiser, and K steps."""
    local = [f"train.optimizer={optimizer}", f"train.learning_rate={RATES[optimizer]}", f"train.steps={steps}"]
    return [*local, "train.momentum=0.9", "train.decay=0.9", "train.damping=1e-7", f"partition.clients={clients}"]


def ours(sigma0: float, reading: str, batch: int = 75) -> list[str]:
    """Returns the printed mechanism in one reading: the sensitivity as it is printed, or divided by the batch."""
    divisor = 1.0 if reading == READINGS[0] else float(batch)
    return [*OURS, f"mechanism.noise_multiplier={sigma0}", f"mechanism.sensitivity_divisor={divisor}"]


def allowed(runner: ExperimentRunner, budget: float, sigma0: float) -> int:
    """Returns the rounds that Eq. (12) allows a client that is always there; one, in quick form."""
    return runner.size(xue_participations(budget, sigma0, DELTA), 1)


def experiment(
    id_: str,
    place: str,
    title: str,
    find: Callable[[ExperimentRunner], ExperimentResult],
    shorter: str,
    choices: tuple[str, ...] = SHARED,
    data: str = "",
) -> Experiment:
    """Returns an experiment of this paper."""
    doubt = "the sampling ratio, the sizes of the layers and the rounds are not stated"
    return Experiment(id_, XUE, place, title, find, choices=choices, doubt=doubt, shorter=shorter, data=data)


def both_readings(
    runner: ExperimentRunner,
    data: list[str],
    optimizers: tuple[str, ...],
    steps: int,
    sigma0: float,
    rounds: int,
    batch: int = 75,
) -> dict[str, dict[str, SeedRuns]]:
    """Plays both readings for each optimiser."""
    plans = {
        f"{optimizer}/{name}": [*data, *client(optimizer, steps), *ours(sigma0, name, batch), f"run.rounds={rounds}"]
        for optimizer in optimizers
        for name in READINGS
    }
    runs = runner.play(plans)
    return {optimizer: {name: runs[f"{optimizer}/{name}"] for name in READINGS} for optimizer in optimizers}


def judged(quantity: str, printed: float, readings: Mapping[str, SeedRuns]) -> PrintedLine:
    """Judges the reading that comes nearest; where none is near, says what the noise leaves."""
    ends = {name: runs.last() for name, runs in readings.items()}
    near = min(ends.values(), key=lambda end: abs(end[0] - printed))
    line = accuracy(quantity, printed, *near)
    if line.status != "differs":
        return line
    shown = ", ".join(f"{100 * mean:.2f} % ({name})" for name, (mean, _) in ends.items())
    return beyond(quantity, f"{100 * printed:.2f} %", shown, readings)


def beyond(quantity: str, printed: str, shown: str, *scenes: Mapping[str, SeedRuns]) -> PrintedLine:
    """Returns a line for an accuracy, or more of it, that the noise does not leave.

    It cannot be had where averaged noise exceeds every weight in both readings, and nothing was learnt in either; where
    one of them is not so, it differs. Of several scenes the least and the most noisy are told.
    """
    by_noise = sorted(scenes, key=lambda readings: _left(readings[READINGS[1]]))
    why = joined(*dict.fromkeys(drowned(readings) for readings in (by_noise[0], by_noise[-1])))
    loud = all(_left(runs) > 1 for readings in scenes for runs in readings.values())
    learnt = any(runs.last()[0] >= LEARNT for readings in scenes for runs in readings.values())
    return (
        impossible(quantity, printed, shown, why)
        if loud and not learnt
        else statement(quantity, printed, shown, False, why)
    )


def drowned(readings: Mapping[str, SeedRuns]) -> str:
    """Returns how many times each weight its noise is, in both readings, and what averaging leaves of that."""
    printed, divided = (readings[name].views[0].recipe for name in READINGS)
    clients = cohort(divided)
    return (
        f"√d·σ0·β is {times(printed):,.0f} times each weight ({times(divided):,.0f} times over the batch of "
        f"{divided.train.batch_size}), and averaging {clients} clients takes away a factor of {clients**0.5:.1f} only: "
        f"each round leaves noise of {_left(readings[READINGS[1]]):.1f} times the weight at least"
    )


def _left(runs: SeedRuns) -> float:
    """Returns how many times each weight its noise still is when all clients are averaged."""
    recipe = runs.views[0].recipe
    return float(times(recipe) / cohort(recipe) ** 0.5)

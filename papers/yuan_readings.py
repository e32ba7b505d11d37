"""Yuan et al. (2023) under declared readings: learning rate and pixels (Table II), where a network starts (Fig. 8)."""

from __future__ import annotations

from papers.experiment import ExperimentResult
from papers.experiment_runner import ExperimentRunner, SeedRuns
from papers.printed_line import PrintedLine, statement
from papers.readings import PIXEL_SCALE, OpenChoice, PrintedTarget, ReadingGrid, read_all
from papers.yuan import LEAST, RATE, SHARED, THETAS, experiment, geometric
from papers.yuan_others import CNN, LAYERS, SETTINGS, SVM
from papers.yuan_verdicts import at_best, order

RATES = OpenChoice(
    "learning rate", {f"η = {rate:g}": [f"train.learning_rate={rate}"] for rate in (0.1, 0.01, 0.03, 0.3)}
)
GRID = ReadingGrid((RATES, PIXEL_SCALE))
NETWORKS = OpenChoice(
    "network",
    {
        "LeNet": ["model.name=cnn_yuan"],
        "LeNet, started at norm 4": ["model.name=cnn_yuan_inside"],
        "a small network": ["model.name=cnn_yuan_small"],
    },
)
START = ReadingGrid((NETWORKS, PIXEL_SCALE))
DECAYS = OpenChoice("λ_r", {f"λ_r = {decay:g}": [f"train.weight_decay={decay}"] for decay in (0, 0.001, 0.01, 0.1)})
DECAY = ReadingGrid((DECAYS, RATES))
RATES_TOO = "The full form also has the learning rates of Table II's readings; quick: 0.1."
INSIDE = "“A small network” has 2 and 4 channels, 16 and 12 units: PyTorch starts it at norm 3.9, inside C = 5."


def table2(runner: ExperimentRunner) -> ExperimentResult:
    """Table II: the loss at M = 17 in every reading."""
    targets = {
        f"ϑ = {theta:g}": PrintedTarget(geometric(theta, 17), printed, "loss") for theta, printed in LEAST.items()
    }
    return read_all(runner, "yuan-table2-readings", "Yuan et al., Table II: readings", GRID, targets)


def fig8(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 8 on Fashion-MNIST: which ϑ has the least loss, by where the network starts."""
    lengths, thetas = (
        runner.size((5, 10, 20, 30), (10,)),
        runner.size((0.9, 0.95, 1.0, 1.05, 1.1), (0.95, 1.05)),
    )
    readings = runner.size(ReadingGrid((*START.choices, RATES)), START).readings()
    plans = {
        f"{words}/{theta:g}/{m}": [*geometric(theta, m, scene=CNN["fashion-mnist"]), *more, f"run.evaluate_every={m}"]
        for words, more in readings.items()
        for theta in thetas
        for m in lengths
    }
    runs = runner.play(plans)
    lines = [
        least_by_theta(words, {t: [runs[f"{words}/{t:g}/{m}"] for m in lengths] for t in thetas}) for words in readings
    ]
    return ExperimentResult(tuple(lines))


def fig7(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 7, the SVM on Adult: the order of ϑ by the regulariser that is not stated."""
    lengths = runner.size((5, 10, 15, 20, 30, 40, 50), (15, 50))
    readings = runner.size(DECAY, ReadingGrid((DECAYS,))).readings()
    plans = {
        f"{words}/{theta:g}/{m}": [*geometric(theta, m, scene=SVM), *more, f"run.evaluate_every={m}"]
        for words, more in readings.items()
        for theta in THETAS
        for m in lengths
    }
    runs = runner.play(plans)
    lines = []
    for words in readings:
        least = {t: min(runs[f"{words}/{t:g}/{m}"].last("loss")[0] for m in lengths) for t in THETAS}
        shown = ", ".join(f"{theta:g}: {loss:.4f}" for theta, loss in least.items())
        at = {t: at_best({m: runs[f"{words}/{t:g}/{m}"] for m in lengths}) for t in THETAS}
        groups = [[at[1.05], at[1.1]], [at[1.0]], [at[0.9], at[0.95]]]
        lines.append(order(f"least loss by ϑ: {words}", "ϑ > 1 best, then 1, then ϑ < 1", shown, groups))
    return ExperimentResult(tuple(lines))


def least_by_theta(words: str, runs: dict[float, list[SeedRuns]]) -> PrintedLine:
    """Judges whether some ϑ < 1 has the least loss, and tells how well the best of all did."""
    least = {theta: min(found.last("loss")[0] for found in row) for theta, row in runs.items()}
    best = max(found.last()[0] for row in runs.values() for found in row)
    shown = ", ".join(f"{theta:g}: {loss:.3f}" for theta, loss in least.items())
    holds = min(least, key=lambda theta: least[theta]) < 1 and best >= 0.2
    why = "" if best >= 0.2 else "nothing is learnt"
    return statement(f"least loss by ϑ: {words}", "ϑ < 1", f"{shown}; best accuracy {100 * best:.1f} %", holds, why)


EXPERIMENTS = (
    experiment(
        "yuan-fig7-readings", "Fig. 7, §V-C", "Readings: the SVM's regulariser", fig7, *DECAY.told(), *SETTINGS[1:2],
        shorter="one seed, M = 15 and 50, η = 0.1",
    ),
    experiment(
        "yuan-table2-readings", "Table II, §V-B-1", "Readings: learning rate and pixels", table2, *GRID.told(),
        SHARED[2],
    ),
    experiment(
        "yuan-fig8-readings", "Fig. 8, §V-C", "Readings: where the network starts", fig8, *START.told(), RATES_TOO,
        INSIDE, RATE,
        *LAYERS[2:3], shorter="one seed, M = 10, ϑ = 0.95 and 1.05",
    ),
)  # fmt: skip

"""Zhu et al. (2024) under declared readings: pixels, and whether σ·C is the noise of a weight or of a whole update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from papers.cited import FED_CAD
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.fed_cad import SHARED, skewed, three
from papers.fed_cad_verdicts import CHANCE, KINDS, gained
from papers.printed_line import PrintedLine, joined
from papers.readings import PIXEL_SCALE, OpenChoice, PrintedTarget, ReadingGrid, read_all, spread_of

SIGMA, WEIGHTS = 0.3, 21_840
"""The paper's σ, and the weights of `cnn_fed_cad` on 28 × 28 pixels."""
LOUDNESS = OpenChoice(
    "noise",
    {
        "σ·C on every weight": [f"mechanism.noise_multiplier={SIGMA}"],
        "σ·C on the whole update": [f"mechanism.noise_multiplier={SIGMA / WEIGHTS**0.5:.8f}"],
    },
)
GRID = ReadingGrid((LOUDNESS, PIXEL_SCALE))
GAINS = dict(zip(KINDS, (0.02, 0.04), strict=True))


def fig3(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 3, σ = 0.3: the printed gains over Fed-LDP in every reading."""
    plans = three("mnist", SIGMA, runner)
    readings = GRID.readings()
    runs = runner.play({f"{a}/{b}": [*plans[a], *more] for a in plans for b, more in readings.items()})
    lines: list[PrintedLine] = []
    for kind, printed in GAINS.items():
        pairs = {words: (runs[f"{kind}/{words}"], runs[f"Fed-LDP/{words}"]) for words in readings}
        for words, pair in pairs.items():
            line = gained(f"{kind} over Fed-LDP: {words}", printed, *pair)
            lines.append(replace(line, why=joined(line.why, f"Fed-LDP ends at {100 * pair[1].last()[0]:.1f} %")))
        alive = {words: found.lead(base)[0] for words, (found, base) in pairs.items() if found.last()[0] >= CHANCE}
        if alive:
            told = spread_of(f"{kind} over Fed-LDP", PrintedTarget((), printed), alive)
            lines.append(replace(told, quantity=f"**{kind} over Fed-LDP: spread of the readings above chance**"))
    return ExperimentResult(tuple(lines))


def fig6(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 6: the one accuracy that is printed, Fed-LDP's with two classes a client."""
    plan = [*three("mnist", SIGMA, runner)["Fed-LDP"], *skewed(2)]
    targets = {"Fed-LDP, 2 classes": PrintedTarget(plan, 0.847)}
    return read_all(runner, "cad-fig6-readings", "Fed-CAD, Fig. 6: readings", GRID, targets)


def _experiment(id_: str, place: str, title: str, find: Callable[[ExperimentRunner], ExperimentResult]) -> Experiment:
    doubt = "the sizes of the network's layers are not stated"
    return Experiment(
        id_, FED_CAD, place, title, find, choices=(*GRID.told(), *SHARED[1:]), doubt=doubt,
        shorter="one seed, half of the rounds",
    )  # fmt: skip


EXPERIMENTS = (
    _experiment("cad-fig3-readings", "Fig. 3, §VII-C", "Readings: gains at σ = 0.3", fig3),
    _experiment("cad-fig6-readings", "Fig. 6, §VII-E", "Readings: two classes a client", fig6),
)

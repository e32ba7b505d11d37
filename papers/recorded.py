"""Statements of the papers about several figures, or about a curve's course, judged by what was recorded of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from papers.cited import A_DPFL, BAEK, FED_CAD
from papers.drawn import PICTURES, curves
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.fed_cad_verdicts import KINDS
from papers.printed_line import PrintedLine, statement
from papers.record import read

ROOM = Path(__file__).parent
MUCH = 2.0
"""So many times as large counts as much larger."""


def speed(runner: ExperimentRunner) -> ExperimentResult:
    """A-DPFL, Fig. 4: speed of convergence and steadiness, by the recorded curves."""
    lines: list[PrintedLine] = []
    for name, key in (("MNIST", "mnist"), ("CIFAR-10", "cifar-10")):
        paths = {label: [y for _, y in points] for label, points in curves(PICTURES / f"adpfl-fig4-{key}.svg").items()}
        mean = {label: float(np.mean(path)) for label, path in paths.items()}
        falls = {label: unsteadiness(path) for label, path in paths.items() if path[-1] >= LEARNT}
        told = ", ".join(f"{label}: {100 * value:.1f} %" for label, value in mean.items())
        shown = ", ".join(f"{label}: {100 * value:.1f} %" for label, value in falls.items())
        steady = falls["no privacy"] == min(falls.values())
        lines += [
            statement(
                f"{name}: mean accuracy over all rounds", "A-DPFL converges faster than CL-FL", told,
                mean["A-DPFL"] > mean["CL-FL"],
            ),
            statement(
                f"{name}: mean accuracy over all rounds", "DPFL is far behind the optimised ones (10 points)", told,
                min(mean["A-DPFL"], mean["CL-FL"]) - mean["DPFL"] > FAR, BEHIND,
            ),
            statement(
                f"{name}: falls, as a share of all that it goes up or down", "least without privacy", shown, steady
            ),
        ]  # fmt: skip
    return ExperimentResult(tuple(_without_reason(lines)))


def unsteadiness(path: Sequence[float]) -> float:
    """Returns what share of all the ways that a curve goes up or down it goes down."""
    steps = np.diff(np.asarray(path))
    return float(abs(steps[steps < 0].sum()) / np.abs(steps).sum())


def non_iid(runner: ExperimentRunner) -> ExperimentResult:
    """Baek, Fig. 4 beside Fig. 1: the share of accuracy that noise takes, by writer and on MNIST."""
    plain, writers = _accuracies("baek-fig1"), _accuracies("baek-fig4")
    lines = []
    for z in ("z = 1", "z = 1.5"):
        iid = 1 - plain[z] / plain["no noise"]
        other = 1 - writers[z] / writers[CLIPPED]
        shown = f"{100 * other:.1f} % of it by writer, {100 * iid:.1f} % on MNIST"
        quantity = f"accuracy lost to noise, relative, {z}"
        lines.append(statement(quantity, "much larger than on MNIST (twice counts as that)", shown, other > MUCH * iid))
    lost = {z: 100 * (plain["no noise"] - plain[z]) for z in ("z = 1.5", "z = 2")}
    shown = ", ".join(f"{z}: {points:.2f} points" for z, points in lost.items())
    large = statement("Fig. 1: accuracy lost to noise", "large from z = 2 on (twice that of 1.5 counts as that)", shown,
                      lost["z = 2"] > MUCH * lost["z = 1.5"])  # fmt: skip
    return ExperimentResult((large, *lines), (), ("By what baek-fig1 and baek-fig4 recorded.",))


def by_noise(runner: ExperimentRunner) -> ExperimentResult:
    """Fed-CAD, Fig. 3 and 4: whether what it gains over Fed-LDP grows with σ, by the recorded curves."""
    lines = []
    for name, figure in (("MNIST", "cad-fig3"), ("Fashion-MNIST", "cad-fig4")):
        ends = {
            sigma: {label: points[-1][1] for label, points in curves(PICTURES / f"{figure}-{sigma:g}.svg").items()}
            for sigma in (0.1, 0.3, 0.5)
        }
        for kind in KINDS:
            gains = {sigma: end[kind] - end["Fed-LDP"] for sigma, end in ends.items()}
            shown = ", ".join(
                f"σ = {sigma:g}: {100 * gain:+.2f} points (Fed-LDP {100 * ends[sigma]['Fed-LDP']:.1f} %)"
                for sigma, gain in gains.items()
            )
            alive = all(max(end.values()) >= LEARNT for end in ends.values())
            grows = 0 < gains[0.1] < gains[0.3] < gains[0.5]
            why = "" if alive else "from σ = 0.3 on all of them end at chance, where a gain means nothing"
            quantity = f"{name}: gain of {kind} over Fed-LDP"
            lines.append(statement(quantity, "especially when σ increases", shown, grows and alive, why))
    return ExperimentResult(tuple(lines))


def _accuracies(id_: str) -> dict[str, float]:
    """Returns the recorded accuracies of a figure by the words after the rounds."""
    found = {}
    for line in read(ROOM / "records" / f"{id_}.json").lines:
        told = re.match(r"accuracy after [^,]+, (.+)", line.quantity)
        if told:
            found[told[1]] = float(line.ours.split()[0]) / 100
    return found


def _without_reason(lines: Sequence[PrintedLine]) -> list[PrintedLine]:
    return [PrintedLine(x.quantity, x.printed, x.ours, x.status, "" if x.status == "equal" else x.why) for x in lines]


LEARNT, FAR = 0.2, 0.1
CLIPPED = "no noise to speak of (z = 0.01), clipped"
BEHIND = "CL-FL's noise, whose settings are not stated, leaves it at chance, behind DPFL"
HOW = (
    "Speed is the mean accuracy over all rounds. Unsteadiness is the share of falls in all that accuracy goes up and "
    "down from round to round, of those that end above chance. Both are of the curves that adpfl-fig4 recorded.",
)
EXPERIMENTS = (
    Experiment(
        "adpfl-fig4-speed", A_DPFL, "Fig. 4, §6.2", "Speed of convergence, by the recorded curves", speed, "exact",
        recorded=True, choices=HOW, doubt="how many take part, how long they train and α are not stated",
    ),
    Experiment(
        "baek-fig4-relative", BAEK, "Fig. 1 and 4, §VI", "Loss to noise, by writer and on MNIST", non_iid, "exact",
        recorded=True,
        doubt="other data: MNIST by writer in place of FEMNIST",
    ),
    Experiment(
        "cad-fig3-growth", FED_CAD, "Fig. 3 and 4, §VII-C", "Gain by σ, by the recorded curves", by_noise, "exact",
        recorded=True,
        choices=("Accuracies at the end of the curves that cad-fig3 and cad-fig4 recorded.",),
        doubt="the sizes of the network's layers are not stated",
    ),
)  # fmt: skip

"""Zhu et al. (2024), Fig. 2, 5 and 6 with noise that leaves something to learn: σ·C on the whole update.

With σ·C on every weight all runs of Fig. 2, and most of Fig. 5 and 6, end at chance, so that they cannot show what they
are about. This is the variant that can, declared beside them: the reading of Fig. 3 and 6 (`fed_cad_readings`) in which
something is learnt.
"""

from __future__ import annotations

from dataclasses import replace

from papers.cited import FED_CAD
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.fed_cad import (
    CLASSES,
    COUNTS,
    GAINS,
    GAMMAS,
    LENGTHS,
    NAMES,
    PAIRS,
    SHARED,
    by_gamma,
    curves,
    skewed,
    three,
)
from papers.fed_cad_readings import SIGMA, WEIGHTS
from papers.fed_cad_verdicts import KINDS, beats, better_kind, gained
from papers.printed_line import PrintedLine
from sordino.charts import Chart

QUIET = round(SIGMA / WEIGHTS**0.5, 8)
"""σ on every weight for which the noise of a whole update has the norm σ·C."""


def study(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 2, 5 and 6 (on MNIST); quick: without Fashion-MNIST, and of Fig. 6 two classes alone."""
    gammas, runs = by_gamma(QUIET, runner)
    charts = [curves("cad-learning-gamma", "Fed-CAD, Fig. 2 with less noise: γ on MNIST", runs)]
    lines = [replace(line, quantity=f"Fig. 2, {line.quantity}") for line in gammas]
    for found, drawn in (_participants(runner), _classes(runner)):
        lines += found
        charts += drawn
    return ExperimentResult(tuple(lines), tuple(charts))


def _participants(runner: ExperimentRunner) -> tuple[list[PrintedLine], list[Chart]]:
    lines, charts = [], []
    for name in runner.size(tuple(NAMES), ("mnist",)):
        for size in runner.size((10, 30, 50), (10, 30)):
            scene = f"Fig. 5, {NAMES[name]}, {size} participants"
            plans = three(name, QUIET, runner)
            runs = runner.play({label: [*plan, f"select.size={size}"] for label, plan in plans.items()})
            lines.append(beats(scene, runs))
            if name == "fashion-mnist" and size != 30:
                lines.append(better_kind(scene, size == 50, runs))
            title = f"Fed-CAD, Fig. 5 with less noise: {NAMES[name]}, {size} a round"
            charts.append(curves(f"cad-learning-{name}-{size}", title, runs))
    return lines, charts


def _classes(runner: ExperimentRunner) -> tuple[list[PrintedLine], list[Chart]]:
    lines, charts = [], []
    for classes in runner.size((2, 5, 8), (2,)):
        plans = three("mnist", QUIET, runner)
        runs = runner.play({label: plan + skewed(classes) for label, plan in plans.items()})
        lines.append(beats(f"Fig. 6, MNIST, {classes} classes a client", runs))
        for label, gain in zip(KINDS, GAINS.get(("mnist", classes), ()), strict=False):
            quantity = f"Fig. 6, MNIST, {classes} classes: {label} over Fed-LDP"
            lines.append(gained(quantity, gain, runs[label], runs["Fed-LDP"]))
        title = f"Fed-CAD, Fig. 6 with less noise: MNIST, {classes} classes"
        charts.append(curves(f"cad-learning-classes-{classes}", title, runs))
    return lines, charts


LESS = (
    "Declared in place of σ·C on every weight, with which little or nothing is learnt: noise of norm σ·C on the whole "
    "update, the reading of cad-fig3-readings and cad-fig6-readings above chance. No proof gives the printed ε to it."
)
EXPERIMENTS = (
    Experiment(
        "cad-learning", FED_CAD, "Fig. 2, 5 and 6, §VII-B, D, E", "γ, participants and classes, with less noise", study,
        choices=(LESS, GAMMAS, COUNTS, CLASSES, PAIRS, LENGTHS, *SHARED),
        doubt="the sizes of the network's layers are not stated",
        shorter="one seed, half of the rounds, MNIST alone, of Fig. 6 two classes a client",
    ),
)  # fmt: skip

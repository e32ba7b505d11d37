"""Baek et al. (2021): ε of Table 2 and of the figures, which need no training."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from papers.accounting import BAEK_ROUNDS, BAEK_TABLE, DELTA, counted
from papers.experiment import ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.printed_line import PrintedLine, number
from sordino.account.accountants import rdp, renyi
from sordino.account.accountants.accountant import price
from sordino.account.accountants.calibrate import largest_rounds
from sordino.charts import Axis, Chart, Series
from sordino.events import GaussianDpEvent, PoissonSampledDpEvent

TENTHS = np.arange(11, 301) / 10
"""Rényi orders 1.1 … 30 in steps of 0.1."""


def sampled(multiplier: float) -> PoissonSampledDpEvent:
    """Returns a round: a Gaussian that is sampled at the paper's rate of 0.01."""
    return PoissonSampledDpEvent(0.01, GaussianDpEvent(multiplier))


def epsilon(multiplier: float, rounds: int, accountant: str = "rdp-classic") -> float:
    """Returns ε after some rounds."""
    return price({sampled(multiplier): rounds}, accountant).epsilon(DELTA)


def table2(runner: ExperimentRunner) -> ExperimentResult:
    """Table 2: ε after some rounds, and rounds below some ε, by dropout rate. No training."""
    lines = []
    for dropout, row in BAEK_TABLE.items():
        event = sampled((1 - dropout) ** 0.5)
        for rounds, printed in zip(BAEK_ROUNDS, row[:6], strict=True):
            found = price({event: rounds}, "rdp-classic").epsilon(DELTA)
            lines.append(number(f"ε after {counted(rounds)}, {dropout:.0%} dropout", printed, found, 3, 0.001))
        for budget, printed in zip((2, 4, 8), row[6:], strict=True):
            most = largest_rounds(budget, DELTA, lambda n, e=event: {e: n}, "rdp-classic")  # type: ignore[misc]
            lines.append(number(f"rounds below ε = {budget}, {dropout:.0%} dropout", printed, most, 0, 1))
    lines += [_gained(0.1, 0.15), _gained(0.3, 0.5)]
    remark = "Rényi orders 1.1 … 10.9 and 12 … 63 with the classic conversion; dropouts leave z·√(1 − rate)."
    return ExperimentResult(tuple(lines), (_table2_chart(),), (remark,))


def _table2_chart() -> Chart:
    rounds, series = BAEK_ROUNDS[:4], []
    for color, (dropout, row) in enumerate(BAEK_TABLE.items()):
        kept = (1 - dropout) ** 0.5
        tight = [epsilon(kept, n, "pld") for n in rounds]
        series.append(Series(f"printed, {dropout:.0%} dropout", rounds, row[:4], "dots", color))
        series.append(Series(f"classic, {dropout:.0%}", rounds, [epsilon(kept, n) for n in rounds], "line", color))
        series.append(Series(f"tight (PLD), {dropout:.0%}", rounds, tight, "line", color, dashed=True))
    note = "Printed values lie on the classic accountant's line; the same noise is worth more to a tight one."
    axes = Axis("rounds", log=True), Axis("ε at δ = 1e-5")
    return Chart("baek-table2", "Baek et al., Table 2", note, *axes, tuple(series))


def by_tenths(multiplier: float, rounds: int) -> float:
    """Returns ε of the classic conversion with the orders `TENTHS`, which the figures seem to have been made with."""
    costs = rdp.divergence({sampled(multiplier): rounds}, TENTHS, "add_remove")
    return renyi.epsilon_classic(TENTHS, costs, DELTA)


def epsilons(rounds: int, printed: dict[float, float]) -> list[PrintedLine]:
    """Judges ε of a figure by noise multiplier, with the accountant that gives Table 2."""
    lines = []
    for z, value in printed.items():
        found = epsilon(z, rounds)
        cut = math.floor(1e4 * by_tenths(z, rounds)) / 1e4
        why = f"orders 1.1 … 30 in steps of 0.1, in place of Table 2's, give {cut:.4f} with digits cut off"
        same = round(found, 4) == value
        lines.append(number(f"ε after {rounds} rounds, z = {z:g}", value, found, 4, 0.001, "" if same else why))
    return lines


def dropout_epsilons() -> list[PrintedLine]:
    """Judges ε of Fig. 2."""
    why = "the paper's own Table 2 prints {} for the same noise, which is ours; it would be that of {:.1f} % left"
    lost = ((0.1, 1.8719), (0.3, 2.5005))
    lines = [
        number(
            f"ε after 100 rounds, z = 1, {100 * dropout:g} % lost",
            printed,
            epsilon((1 - dropout) ** 0.5, 100),
            4,
            0.001,
            why.format(BAEK_TABLE[dropout][BAEK_ROUNDS.index(100)], 100 * weight_left(printed)),
        )
        for dropout, printed in lost
    ]
    return [*lines, number("ε after 100 rounds, z = 1, calibrated", 1.6118, epsilon(1.0, 100), 4)]


def weight_left(printed: float) -> float:
    """Returns the share of the weight that users must leave for an ε to be right, after 100 rounds at z = 1."""
    return float(brentq(lambda kept: epsilon(kept**0.5, 100) - printed, 0.5, 1.0, xtol=1e-6))


def _gained(dropout: float, printed: float) -> PrintedLine:
    """Judges by how much ε is greater without calibration after the experiments' 100 rounds."""
    greater = {n: epsilon((1 - dropout) ** 0.5, n) / epsilon(1.0, n) - 1 for n in BAEK_ROUNDS}
    why = f"over all rounds of Table 2 {100 * min(greater.values()):.1f} to {100 * max(greater.values()):.1f} %"
    quantity = f"ε greater without calibration, {counted(100)}, {dropout:.0%} dropout (§VII)"
    line = number(quantity, 100 * printed, 100 * greater[100], 0, 5, why)
    return replace(line, printed=f"{line.printed} %", ours=f"{line.ours} %")

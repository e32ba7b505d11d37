"""Numbered claims of Baek et al., A-DPFL and Fed-CAD that can be computed without training."""

from __future__ import annotations

import math

import numpy as np

from papers.cited import A_DPFL, BAEK, FED_CAD
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.printed_line import PrintedLine, number, statement
from sordino.account.accountants.accountant import price
from sordino.account.accountants.published import fed_cad_schedule
from sordino.events import GaussianDpEvent

DELTA = 1e-5


def propositions(runner: ExperimentRunner) -> ExperimentResult:
    """Baek, Propositions 1 and 2: the sensitivity of averages, attained and under the paper's own changes."""
    bound, users = 0.5, 50
    ones = np.ones(users)
    swapped = (bound - -bound) / users
    weights = np.linspace(0.1, 1.0, users)
    weighted = weights.max() * 2 * bound / weights.sum()
    leaves = _leaving(ones * bound, -bound)
    return ExperimentResult(
        (
            number("Proposition 1: greatest change if one of 50 is replaced, over 2C/n", 1.0, swapped * users / 1.0, 6),
            number("Proposition 2: the same with weights, over 2WC/n", 1.0, weighted * weights.sum() / 1.0, 6),
            statement(
                "the same if a user leaves, which adjacency there does not mean", "at most 1", f"{leaves * users:.3f}",
                leaves * users <= 1 + 1e-9,
            ),
        )
    )  # fmt: skip


def _leaving(values: np.ndarray, own: float) -> float:
    """Returns by how much the mean of n values changes when the last of them, which is `own`, leaves."""
    there = values.copy()
    there[-1] = own
    return abs(float(there[:-1].mean() - there.mean()))


def definition4(runner: ExperimentRunner) -> ExperimentResult:
    """A-DPFL, Definition 4: σ ≥ (Δ/ε)·√ln(1.25/δ), held to the exact curve of a Gaussian."""
    lines = []
    for epsilon in (0.1, 0.5, 1.0):
        sigma = math.sqrt(math.log(1.25 / DELTA)) / epsilon
        spent = price(GaussianDpEvent(sigma)).epsilon(DELTA)
        quantity = f"Definition 4: ε of one release with the printed σ for ε = {epsilon:g}, δ = 1e-5"
        why = f"the classic theorem has √(2·ln(1.25/δ)); with that factor {_classic(epsilon):.4f} is spent"
        lines.append(
            statement(
                quantity, f"at most {epsilon:g}", f"{spent:.4f}", spent <= epsilon, "" if spent <= epsilon else why
            )
        )
    return ExperimentResult(tuple(lines))


def _classic(epsilon: float) -> float:
    return price(GaussianDpEvent(math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon)).epsilon(DELTA)


def theorems(runner: ExperimentRunner) -> ExperimentResult:
    """Fed-CAD, Lemma III.1 and Theorems VI.1 and VI.2."""
    lines = [_lemma(), *(_variance(difference) for difference in (0.3, 0.5, 0.7)), _private(0.5)]
    return ExperimentResult(tuple(lines))


def _lemma() -> PrintedLine:
    noise = np.random.default_rng(0).normal(0.0, 0.3, size=(200, 21_840))
    error = float((noise**2).sum(1).mean()) / (0.3**2 * noise.shape[1])
    return number("Lemma III.1: mean squared error of 200 messages over σ²C²d", 1.0, error, 2)


def _variance(difference: float) -> PrintedLine:
    """Theorem VI.2's closed form against the recursion of Algorithm 1, over 30 messages."""
    variance, carried, fresh = fed_cad_schedule(difference, 30)
    times = np.arange(1, 31)
    closed = (2 * difference - difference**2) / (1 - (1 - difference) ** (2 * times))
    rolled = [1.0]
    for r, s in zip(carried[1:], fresh[1:], strict=True):
        rolled.append(float(s**2 + r**2 * rolled[-1]))
    apart = float(max(np.abs(closed - variance).max(), np.abs(np.array(rolled) - variance).max()))
    quantity = f"Theorem VI.2: variance of 30 messages, closed form against recursion, D = {difference:g}"
    return statement(quantity, "equal", f"at most {apart:.1e} apart", apart < 1e-9)


def _private(difference: float) -> PrintedLine:
    """Theorem VI.1 with a public D: each new part φ_t = u_t − r·u_{t−1} has as much noise as it may move."""
    _, carried, fresh = fed_cad_schedule(difference, 30)
    moves = (1 - carried[1:]) + carried[1:] * difference
    ratio = float((moves / fresh[1:]).max())
    quantity = f"Theorem VI.1: sensitivity over noise of every message after the first, D = {difference:g} public"
    return number(quantity, 1.0, ratio, 6, why="so 30 messages cost 30 Gaussians of multiplier σ (zero_out)")


EXPERIMENTS = (
    Experiment(
        "baek-propositions", BAEK, "Propositions 1 and 2, §IV", "Sensitivity of averages", propositions, "exact"
    ),
    Experiment("adpfl-definition4", A_DPFL, "Definition 4, §3.1", "The Gaussian mechanism", definition4, "exact"),
    Experiment("cad-theorems", FED_CAD, "Lemma III.1, Theorems VI.1, VI.2", "Noise of messages", theorems, "exact"),
)

"""Numbered claims of Baek et al., A-DPFL and Fed-CAD that can be computed without training."""

from __future__ import annotations

import math

import numpy as np

from papers.a_dpfl import CLIP, COMMON, DATA, PRIVATE
from papers.cited import A_DPFL, BAEK, FED_CAD
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner, recipe_of
from papers.noise import shrunk_told
from papers.printed_line import PrintedLine, number, statement
from sordino.account.accountants.accountant import price
from sordino.account.accountants.published import fed_cad_schedule
from sordino.events import GaussianDpEvent

DELTA = 1e-5
BOUND, USERS = 0.5, 50
"""C and n of Baek et al.'s Fig. 1."""
WEIGHTS = 21_840
"""Those of the network that Fed-CAD is played with (`cnn_fed_cad`)."""


def propositions(runner: ExperimentRunner) -> ExperimentResult:
    """Baek, Propositions 1 and 2: how far one user moves an average, at most, and that both bounds are attained."""
    alike, weights = np.ones(USERS), np.linspace(0.1, 1.0, USERS)
    leaves = USERS / (2 * BOUND) * max(_changes(alike, replaced=False))
    return ExperimentResult(
        (
            number(
                "Proposition 1: greatest change if one of 50 is replaced, over 2C/n", 1.0,
                USERS / (2 * BOUND) * max(_changes(alike)), 6,
            ),
            number(
                "Proposition 2: the same with weights, over 2WC/n", 1.0,
                weights.sum() / (2 * weights.max() * BOUND) * max(_changes(weights)), 6,
            ),
            statement(
                "the same if a user leaves, which adjacency there does not mean", "at most 1", f"{leaves:.3f}",
                leaves <= 1 + 1e-9,
            ),
        )
    )  # fmt: skip


def _changes(weights: np.ndarray, replaced: bool = True) -> list[float]:
    """Returns by how much means of vectors of norm C at most change when the heaviest user is another, or goes.

    A thousand are drawn; in the last all point one way and the heaviest user's the other, which is the worst.
    """
    draw, user = np.random.default_rng(0), int(weights.argmax())
    before = draw.normal(size=(1_000, len(weights), 3))
    before *= BOUND * draw.random((1_000, len(weights), 1)) / np.linalg.norm(before, axis=2, keepdims=True)
    before[-1] = [BOUND, 0, 0]
    after = before.copy()
    after[:, user] = np.vstack([before[:-1, 0], -before[-1, :1]])
    there = np.average(after, axis=1, weights=weights)
    if replaced:
        other = np.average(before, axis=1, weights=weights)
    else:
        other = np.average(np.delete(after, user, axis=1), axis=1, weights=np.delete(weights, user))
    return [float(change) for change in np.linalg.norm(there - other, axis=1)]


def definition4(runner: ExperimentRunner) -> ExperimentResult:
    """A-DPFL, Definition 4: σ ≥ (Δ/ε)·√ln(1.25/δ), held to the exact curve of a Gaussian; and Algorithm 3's noise."""
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
    told = (shrunk_told(name, recipe_of([*COMMON, *DATA[name], *PRIVATE, CLIP[name]])) for name in DATA)
    return ExperimentResult(tuple(lines), remarks=tuple(told))


def _classic(epsilon: float) -> float:
    return price(GaussianDpEvent(math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon)).epsilon(DELTA)


def theorems(runner: ExperimentRunner) -> ExperimentResult:
    """Fed-CAD, Lemma III.1 and Theorems VI.1 and VI.2."""
    lines = [_lemma(), *(_variance(difference) for difference in (0.3, 0.5, 0.7)), _private(0.5), _followed(0.5, 0.4)]
    return ExperimentResult(tuple(lines))


def _lemma() -> PrintedLine:
    noise = np.random.default_rng(0).normal(0.0, 0.3, size=(200, WEIGHTS))
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


def _followed(difference: float, obsolete: float) -> PrintedLine:
    """Theorem VI.1 with a D that follows a client's own updates: the size of its noise then tells of them.

    Two clients send the same third update; up to then one stayed where it was, and the other moved by D each time.
    A test that errs with probability b at most, on either side, shows ε ≥ ln((1 − b − δ)/b).
    """
    second = fed_cad_schedule(difference, 2)[0][1]
    still, moved = (second / ((1 - d) ** 2 + second) for d in ((1 - obsolete) * difference, difference))
    overlap = (2 * math.sqrt(still * moved) / (still + moved)) ** (WEIGHTS / 2)
    spent = math.log((1 - overlap - DELTA) / overlap)
    return statement(
        f"Theorem VI.1: ε of a third message where D follows updates (γ = {obsolete:g}), by its noise's size alone",
        "at most 2.72 after 30 rounds at σ = 0.3", f"at least {spent:.1f}, whatever σ is", False,
        f"the proof takes D for a constant; the noise's variance is {still:.3f} for a client that stood still and "
        f"{moved:.3f} for one that moved by D, and {WEIGHTS:,} weights show which (without σ_Diff, as in Algorithm 1)",
    )  # fmt: skip


EXPERIMENTS = (
    Experiment(
        "baek-propositions", BAEK, "Propositions 1 and 2, §IV", "Sensitivity of averages", propositions, "exact"
    ),
    Experiment("adpfl-definition4", A_DPFL, "Definition 4, §3.1", "The Gaussian mechanism", definition4, "exact"),
    Experiment("cad-theorems", FED_CAD, "Lemma III.1, Theorems VI.1, VI.2", "Noise of messages", theorems, "exact"),
)

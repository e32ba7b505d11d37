"""Xue et al. (2023), §V-E: Lemmas 1, 6 to 8 and Theorems 2 and 3, computed, and measured on trained models.

Let v(L) = min over whole α of L·α/(2(ε − ln(1/δ)/(α−1))): the square of the least σ0 for L uploads (Eq. 10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from papers.cited import XUE
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner, recipe_of
from papers.printed_line import PrintedLine, number, statement
from papers.tasks import last_model, played, rounded
from papers.xue_scene import CLIENTS, DELTA, MNIST, OURS, client
from sordino.account.accountants.published import xue_participations, xue_sigma0
from sordino.random.streams import Streams
from sordino.recipe import Recipe

BUDGET, SIGMA0, USERS, WEIGHTS = 0.5, 26.0, 50, 21_840
"""ε, σ0 and n of Fig. 3, and the weights of the network (`cnn_xue`)."""


def lemmas(runner: ExperimentRunner) -> ExperimentResult:
    """Lemmas 1 and 6 to 8 and Theorem 3's constants, which need no training."""
    rounds = xue_participations(BUDGET, SIGMA0, DELTA)
    return ExperimentResult((_lemma1(), _lemma6(), *_lemma7(rounds), *_lemma8(rounds), *_theorem3(rounds)))


def _lemma1() -> PrintedLine:
    scale = np.abs(np.random.default_rng(0).normal(size=WEIGHTS))
    spent = float(np.sum(scale**2 / (math.sqrt(WEIGHTS) * SIGMA0 * scale) ** 2))
    return number("Lemma 1: Σ Δ²/σ_m² over 1/σ0², for σ_m = √d·σ0·Δ", 1.0, spent * SIGMA0**2, 6)


def _lemma6() -> PrintedLine:
    """E[M(x)] = x: what the mechanism's own noise averages to, over as many draws as there are weights, 50 times."""
    noise = Streams(0).normals("lemma 6", 1, np.arange(USERS), WEIGHTS).double()
    off = float(noise.mean()) * math.sqrt(noise.numel())
    return statement(
        f"Lemma 6: mean of {noise.numel():,} draws of the noise, in its standard errors", "0", f"{off:+.2f}",
        abs(off) <= 3, "" if abs(off) <= 3 else "beyond three of them",
    )  # fmt: skip


def _lemma7(rounds: int) -> list[PrintedLine]:
    """Var ≤ d·v(L), L being all uploads of a client: attained where σ0 is the least for its own L, as the proof has it.

    Eq. (13), by which σ0 is fixed in the experiments, takes that of T uploads for everybody.
    """
    why = (
        "σ0 is fixed beforehand for T uploads (Eq. 13), where the proof takes the least one for the client's own L: "
        "who misses rounds adds T/L times the bound"
    )
    found = {uploads: xue_sigma0(BUDGET, rounds, DELTA) ** 2 / _variance(uploads) for uploads in (rounds, 1)}
    told = {rounds: f"a client that uploads {rounds} times of {rounds}", 1: f"one that uploads once of {rounds}"}
    return [
        statement(
            f"Lemma 7: variance over its bound at Δ = 1, {told[uploads]}", "at most 1", f"{ratio:.3f}",
            ratio <= 1 + 1e-9, why if ratio > 1 + 1e-9 else "",
        )
        for uploads, ratio in found.items()
    ]  # fmt: skip


def _variance(uploads: int) -> float:
    """Returns v(L), over every whole α that Theorem 1 allows up to 10,000."""
    orders = np.arange(math.floor(1 + math.log(1 / DELTA) / BUDGET) + 1, 10_000)
    return float((uploads * orders / (2 * (BUDGET - math.log(1 / DELTA) / (orders - 1)))).min())


def _lemma8(rounds: int) -> list[PrintedLine]:
    """Var[w*] ≤ d·v(T)/n “regardless of the number of clients involved in each round”: K of n average K noises."""
    why = (
        "K clients average K noises of σ0 for T uploads (Eq. 13), so the ratio is n/K; it holds for a σ0 that is "
        "chosen for the E[L] = K·T/n uploads of the proof"
    )
    lines = []
    for taking_part in (1, 30, USERS):
        ratio = (xue_sigma0(BUDGET, rounds, DELTA) ** 2 / taking_part) / (_variance(rounds) / USERS)
        quantity = f"Lemma 8: variance over its bound, {taking_part} of {USERS} clients a round"
        lines.append(statement(quantity, "at most 1", f"{ratio:.2f}", ratio <= 1 + 1e-9, why if ratio > 1 else ""))
    return lines


def _theorem3(rounds: int) -> list[PrintedLine]:
    """The “3-sigma rule” with √3 in the place of 3, and the order of the bound."""
    inside = math.erf(math.sqrt(3 / 2))
    explicit = math.sqrt(3 * WEIGHTS / USERS) * xue_sigma0(BUDGET, rounds, DELTA)
    order = SIGMA0 * WEIGHTS * math.sqrt(math.log(1 / DELTA)) / (USERS * BUDGET)
    return [
        statement(
            "Theorem 3: probability that one weight's noise is within the proof's √(3·Var)", "→ 1", f"{inside:.4f}",
            False, f"three sigma would be √(9·Var): 0.9973; all {WEIGHTS:,} weights together: {inside**WEIGHTS:.1e}",
        ),
        statement(
            "Theorem 3: the proof's bound, beside the printed order σ0·d·√ln(1/δ)/(nε)", f"at most {order:,.0f}",
            f"{explicit:,.0f}", explicit <= order,
        ),
    ]  # fmt: skip


def theorems(runner: ExperimentRunner) -> ExperimentResult:
    """Theorems 2 and 3 on models: what truncation alone moves, and how far printed noise moves each weight."""
    told = runner.measure(moved, [*PLAN, "mechanism.name=fedavg"])
    bias, within = (float(np.mean([one[name] for one in told])) for name in ("bias", "within"))
    why = "the noise has mean 0 (Lemma 6), truncation has not, and what is sent is the truncated model"
    lines = (
        statement(
            "Theorem 2: what truncation alone changes in a round's mean update (norm, over the update's)",
            "no bias is introduced", f"{100 * bias:.1f} %", bias < 0.01, why,
        ),
        statement(
            "Theorem 3: weights within √(3·Var) of the model without noise, after one round, Var at Δ = 1",
            "all", f"{100 * within:.2f} %", within > 0.999,
        ),
    )  # fmt: skip
    return ExperimentResult(lines)


def moved(recipe: Recipe, place: Path, arguments: tuple[int, ...]) -> dict[str, float | None]:
    """Measures truncation's share of an update, and the share of weights that noise moves by less than the bound."""
    start, plain, truncated, printed = (
        _weights([*PLAN, *more, f"run.seed={recipe.run.seed}"], place / name) for name, more in MODELS.items()
    )
    rounds = xue_participations(BUDGET, SIGMA0, DELTA)
    bound = math.sqrt(3 * len(plain) / USERS) * xue_sigma0(BUDGET, rounds, DELTA)
    share = float(np.linalg.norm(truncated - plain) / np.linalg.norm(plain - start))
    return {"bias": rounded(share, 6), "within": rounded(float(np.mean(np.abs(printed - truncated) <= bound)), 6)}


def _weights(settings: Sequence[str], place: Path) -> np.ndarray:
    played(recipe_of(settings), place)
    return np.concatenate([tensor.ravel() for tensor in last_model(place)])


PLAN = [*MNIST, *client("rmsprop", 16), "run.rounds=1"]
_QUIET = [*OURS, "mechanism.noise_multiplier=26"]
MODELS = {
    "start": ["mechanism.name=fedavg", "train.learning_rate=1e-12"],
    "plain": ["mechanism.name=fedavg"],
    "truncated": [*_QUIET, "mechanism.sensitivity_divisor=1e9"],
    "printed": _QUIET,
}
ONE = "Measured after one round, where models with and without noise still have the same past."
EXPERIMENTS = (
    Experiment("xue-lemmas", XUE, "Lemmas 1, 6, 7, 8 and Theorem 3, §V-E", "Variance of the noise", lemmas, "exact"),
    Experiment(
        "xue-theorems", XUE, "Theorems 2 and 3, §V-E", "Bias and distance, measured", theorems,
        choices=(*CLIENTS, ONE), doubt="the sizes of the layers are not stated",
    ),
)  # fmt: skip

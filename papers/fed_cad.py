"""Zhu et al. (2024), "Fed-CAD: Federated Learning with Correlation-aware Adaptive Local Differential Privacy"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from papers.cited import FED_CAD
from papers.distances import distances
from papers.experiment import PIXELS, Experiment, ExperimentResult
from papers.experiment_runner import BY_CHANCE, UNBOUND, ExperimentRunner, SeedRuns
from papers.fed_cad_verdicts import (
    KINDS,
    alive,
    beats,
    better_kind,
    by_thirds,
    early_lead,
    early_on,
    gained,
    level,
    listed,
    little_noise,
    told_gain,
)
from papers.printed_line import PrintedLine, ahead_by, impossible, left_out, statement
from sordino.account.accountants import rdp, renyi
from sordino.account.accountants.accountant import price
from sordino.account.accountants.published import fed_cad_schedule
from sordino.charts import Axis, Chart, Series
from sordino.events import GaussianDpEvent, PoissonSampledDpEvent

PERCENT = Axis("test accuracy", percent=True, range=(0.0, 1.0))
BASE = [
    "partition.clients=100", "model.name=cnn_fed_cad", "train.learning_rate=0.01", "train.batch_size=60",
    "train.epochs=1", "select.kind=fixed", "select.size=10", "run.evaluate_every=2", UNBOUND,
]  # fmt: skip
CAD = ["mechanism.name=fed_cad", "mechanism.mode=faithful", "mechanism.clip_norm=1.0"]
START = {"mnist": 0.5, "fashion-mnist": 0.7}
ROUNDS = {"mnist": 30, "fashion-mnist": 60}
SHARED = (
    PIXELS,
    "Sizes of the network's layers are not stated: 10 and 20 channels of 5 × 5 with pooling, and 50 units.",
    "Batches are those of a pass over a client's records in random order, where the text has Poisson's at rate q.",
    "σ_Diff is in the text (“small constant”) and not in the pseudo-code, which we follow. What that compares (lines "
    "13, 20, 21 and 25) are updates before noise, as in the proof.",
    "Fed-LDP is the same run with Diff = 1, where no noise is reused.",
)
COURSE = "rises rapidly, then slowly decreases and tends to stabilise"
RISES = (
    "it rises, slower and slower, and then falls; whether a peak so late is rapid hangs on the rounds that are shown"
)
NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
GAINS = {
    ("mnist", 5): (0.01, 0.02),
    ("mnist", 8): (0.01, 0.01),
    ("fashion-mnist", 5): (0.03, 0.05),
    ("fashion-mnist", 8): (0.03, 0.01),
}
"""Printed gains over Fed-LDP by data set and classes of a client, for constant and adaptive Diff."""
ORDERS = np.array([*(1 + tenth / 10 for tenth in range(1, 100)), *range(12, 64)])
"""Opacus's Rényi orders, as the paper's experiments are in PyTorch."""


def fig1(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 1: how far an update is from the client's last one, without noise, everybody in every round."""
    lines, charts = [], []
    for name in runner.size(("mnist", "fashion-mnist"), ("mnist",)):
        plan = [*BASE, "select.kind=everyone", f"data.name={name}", "mechanism.name=fedavg"]
        seeds = [found["by_round"] for found in runner.measure(distances, plan, runner.size(50, 4))]
        seen = [over_seeds(told) for told in zip(*seeds, strict=True)]
        rounds = list(range(2, len(seen) + 2))
        mean, low, high = ([float(x) for x in column] for column in zip(*seen, strict=True))
        series = Series("mean and range over clients", rounds, mean, "line", 0, low=low, high=high)
        note = "‖u_t − u_{t−1}‖ of the same client; the band is from the least to the greatest, of all seeds."
        axes = Axis("round"), Axis("L2 distance")
        charts.append(Chart(f"cad-fig1-{name}", f"Fed-CAD, Fig. 1: {NAMES[name]}", note, *axes, (series,)))
        lines += [
            statement(f"{NAMES[name]}: every distance", "smaller than 1", f"at most {max(high):.3f}", max(high) < 1),
            course(f"{NAMES[name]}: course", rounds, mean),
        ]
    if runner.quick:
        lines.append(left_out("Fashion-MNIST: every distance", "smaller than 1"))
        lines.append(left_out("Fashion-MNIST: course", COURSE))
    return ExperimentResult(tuple(lines), tuple(charts))


def over_seeds(told: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Returns mean, least and greatest distance of a round over seeds."""
    mean, low, high = zip(*told, strict=True)
    return sum(mean) / len(mean), min(low), max(high)


def course(quantity: str, rounds: Sequence[int], mean: Sequence[float]) -> PrintedLine:
    """Judges whether distances rise rapidly, which is within a third of the rounds, and fall after that.

    A later peak decides nothing: how many rounds Fig. 1 shows is not stated, and with more of them it would be early.
    """
    peak = mean.index(max(mean))
    shown = f"{mean[0]:.3f}, {max(mean):.3f} in round {rounds[peak]}, {mean[-1]:.3f} at the end"
    if len(mean) / 3 <= peak < len(mean) - 1:
        return PrintedLine(quantity, COURSE, shown, "undecided", RISES)
    return statement(quantity, COURSE, shown, 0 < peak < len(mean) - 1)


def fig2(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 2: the obsolete factor γ on MNIST, σ = 0.3."""
    lines, runs = by_gamma(0.3, runner)
    return ExperimentResult(lines, (curves("cad-fig2", "Fed-CAD, Fig. 2: γ on MNIST", runs),))


def by_gamma(sigma: float, runner: ExperimentRunner) -> tuple[tuple[PrintedLine, ...], dict[str, SeedRuns]]:
    """Plays some γ on MNIST, and judges what is said of them."""
    runs = runner.play({f"γ = {g:g}": _cad("mnist", sigma, g, runner) for g in (0.0, 0.2, 0.4, 0.6)})
    end = {name: found.last()[0] for name, found in runs.items()}
    greater = [name for name in runs if name != "γ = 0"]
    lead = max(runs[name].lead(runs["γ = 0"]) for name in greater)
    faster = [early_lead(runs["γ = 0"], runs[name]) for name in greater]
    lines = (
        alive(ahead_by("accuracy at the end", "a larger γ eventually converges better", listed(end), *lead), runs),
        early_on("accuracy after a third of the rounds", "γ = 0 converges faster", faster, runs),
    )
    return lines, runs


def fig3(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 3: noise scales on MNIST."""
    return _noise_scales("mnist", runner, "cad-fig3", {0.3: (0.02, 0.04), 0.5: (0.10, 0.16)}, {0.3: 2.72, 0.5: 1.5})


def fig4(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4: noise scales on Fashion-MNIST."""
    return _noise_scales("fashion-mnist", runner, "cad-fig4", {0.3: (0.04, 0.08)}, {0.3: 3.97})


def fig5(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 5: the number of participants in a round."""
    lines, charts, remarks = [], [], []
    for name in runner.size(tuple(NAMES), ("mnist",)):
        for size in runner.size((10, 30, 50), (10, 30)):
            wide, scene = [f"select.size={size}"], f"{NAMES[name]}, {size} participants"
            runs = runner.play({label: plan + wide for label, plan in three(name, 0.3, runner).items()})
            lines.append(beats(scene, runs))
            if name == "fashion-mnist" and size != 30:
                lines.append(better_kind(scene, size == 50, runs))
            remarks += by_thirds(scene, runs)
            charts.append(curves(f"cad-fig5-{name}-{size}", f"Fed-CAD, Fig. 5: {NAMES[name]}, {size} a round", runs))
    if runner.quick:
        lines.append(left_out("Fashion-MNIST, few and many participants", "constant Diff better, then adaptive Diff"))
    return ExperimentResult(tuple(lines), tuple(charts), tuple(remarks))


def fig6(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 6: data heterogeneity."""
    lines: list[PrintedLine] = []
    charts, gains = [], dict(GAINS)
    for name in runner.size(("mnist", "fashion-mnist"), ("mnist",)):
        for classes in runner.size((2, 5, 8), (2, 5)):
            runs = runner.play({label: plan + skewed(classes) for label, plan in three(name, 0.3, runner).items()})
            if name == "mnist" and classes == 2:
                lines.append(level("MNIST, 2 classes a client: Fed-LDP", 0.847, runs["Fed-LDP"]))
            lines.append(beats(f"{NAMES[name]}, {classes} classes a client", runs))
            base = runs["Fed-LDP"]
            for label, gain in zip(KINDS, gains.pop((name, classes), ()), strict=False):
                lines.append(gained(f"{NAMES[name]}, {classes} classes: {label} over Fed-LDP", gain, runs[label], base))
            charts.append(
                curves(f"cad-fig6-{name}-{classes}", f"Fed-CAD, Fig. 6: {NAMES[name]}, {classes} classes", runs)
            )
    for (name, classes), pair in gains.items():
        lines += _left_out(f"{NAMES[name]}, {classes} classes", pair)
    return ExperimentResult(tuple(lines), tuple(charts))


def _noise_scales(
    name: str, runner: ExperimentRunner, key: str, gains: dict[float, tuple[float, float]], printed: dict[float, float]
) -> ExperimentResult:
    lines = [printed_epsilon(sigma, ROUNDS[name], value) for sigma, value in printed.items()]
    charts, sigmas = [], runner.size((0.1, 0.3, 0.5), (0.1, 0.3) if name == "mnist" else (0.1,))
    for sigma in sigmas:
        runs = runner.play(three(name, sigma, runner))
        base = runs["Fed-LDP"]
        for label, gain in zip(KINDS, gains.get(sigma, ()), strict=False):
            lines.append(gained(f"σ = {sigma:g}: {label} over Fed-LDP", gain, runs[label], base))
        if sigma == 0.1:
            lines += little_noise(runs)
        charts.append(curves(f"{key}-{sigma:g}", f"Fed-CAD, {NAMES[name]}, σ = {sigma:g}", runs))
    for sigma in (one for one in gains if one not in sigmas):
        lines += _left_out(f"σ = {sigma:g}", gains[sigma])
    return ExperimentResult(tuple(lines), (*charts, _variances()), ("Accuracies as printed are in the figures alone.",))


def _left_out(where: str, gains: tuple[float, float]) -> list[PrintedLine]:
    """Returns lines for gains that the quick form does not play."""
    told = zip(KINDS, gains, strict=True)
    return [left_out(f"{where}: {label} over Fed-LDP", told_gain(gain)) for label, gain in told]


def printed_epsilon(sigma: float, uploads: int, printed: float) -> PrintedLine:
    """Puts the printed ε beside what follows from σ, in the kindest readings that we can think of."""
    certified = price({GaussianDpEvent(sigma): uploads}, "exact").epsilon(1e-5)
    kind = price({PoissonSampledDpEvent(0.1, GaussianDpEvent(sigma)): uploads}, "rdp-classic").epsilon(1e-5)
    why = (
        f"{uploads} uploads of multiplier {sigma:g} cost {certified:.2f} (exact); a tenth of them, {uploads // 10}, "
        f"{price({GaussianDpEvent(sigma): uploads // 10}, 'exact').epsilon(1e-5):.2f}; were each one amplified by the "
        f"batch's rate of 0.1, {kind:.2f}. {told_ten_times(sigma, uploads):.2f}, which is what is printed, follows "
        f"for ten batches a round, each sampled at 0.1, and ten times the stated noise: multiplier {10 * sigma:g}"
    )
    return impossible(f"ε at σ = {sigma:g}, {uploads} rounds", f"{printed:g}", f"{certified:.2f}", why)


def told_ten_times(sigma: float, rounds: int) -> float:
    """Returns ε at δ = 1e-5 by Opacus's Rényi orders and conversion, of ten local batches a round and noise of 10·σ.

    It gives all three printed values to their digits, where nothing else that we tried gives one: the accountant seems
    to have been asked for the steps of local training, with σ over the sampling rate as their multiplier.
    """
    steps = {PoissonSampledDpEvent(0.1, GaussianDpEvent(10 * sigma)): 10 * rounds}
    return renyi.epsilon_modern(ORDERS, rdp.divergence(steps, ORDERS, "add_remove"), 1e-5)


def _variances() -> Chart:
    series = tuple(
        Series(f"D = {d:g}", list(range(1, 13)), [float(v) for v in fed_cad_schedule(d, 12)[0]], "both", color)
        for color, d in enumerate((0.3, 0.5, 0.7))
    )
    note = "Noise variance of a client's t-th message over that of the first (Theorem VI.2): what correlation saves."
    axes = Axis("participation"), Axis("relative variance", range=(0.0, 1.05))
    return Chart("cad-variance", "Fed-CAD, Theorem VI.2", note, *axes, series)


def _cad(
    name: str, sigma: float, obsolete: float, runner: ExperimentRunner, difference: float | None = None
) -> list[str]:
    chosen = START[name] if difference is None else difference
    rounds = runner.size(ROUNDS[name], ROUNDS[name] // 2)
    own = [f"mechanism.noise_multiplier={sigma}", f"mechanism.obsolete={obsolete}", f"mechanism.difference={chosen}"]
    return [*BASE, *CAD, *own, f"data.name={name}", f"run.rounds={rounds}"]


def skewed(classes: int) -> list[str]:
    """Returns the settings of clients that hold so many classes."""
    return ["partition.kind=pathological", f"partition.classes_per_client={classes}"]


def three(name: str, sigma: float, runner: ExperimentRunner) -> dict[str, list[str]]:
    """Returns the settings of Fed-LDP and of both kinds of Fed-CAD."""
    return {
        "Fed-LDP": _cad(name, sigma, 0.0, runner, difference=1.0),
        "constant Diff": _cad(name, sigma, 0.0, runner),
        "adaptive Diff": _cad(name, sigma, 0.4, runner),
    }


def curves(key: str, title: str, runs: dict[str, SeedRuns]) -> Chart:
    """Returns accuracies by round."""
    series = tuple(found.series(name, color) for color, (name, found) in enumerate(runs.items()))
    return Chart(key, title, "Ours, as printed.", Axis("round"), PERCENT, series, (BY_CHANCE,))


def _experiment(
    id_: str,
    place: str,
    title: str,
    find: Callable[[ExperimentRunner], ExperimentResult],
    shorter: str,
    *more: str,
    silent: int = 5,
) -> Experiment:
    doubt = "the sizes of the network's layers are not stated, and decide how far updates and noise reach"
    choices = (*SHARED[:silent], *more)
    return Experiment(id_, FED_CAD, place, title, find, choices=choices, doubt=doubt, shorter=shorter)


LENGTH = "How many rounds Fig. 1 shows is not stated: 50."
LENGTHS = "Rounds are stated for §VII-C alone: 30 on MNIST and 60 on Fashion-MNIST here too."
GAMMAS = "But for 0 and 0.4, the values of γ are not stated: 0, 0.2, 0.4 and 0.6."
PAIRS = "Gains are printed in pairs, “(2%, 4%)”, without saying of what: constant Diff, then adaptive Diff."
COUNTS = "The numbers of participants are not stated: 10, 30 and 50."
CLASSES = "But for 2, the numbers of classes are not stated: 5 and 8, in this order for the gains."
HALF = "one seed, half of the rounds"
EXPERIMENTS = (
    _experiment(
        "cad-fig1",
        "Fig. 1, §IV-B",
        "Distances between consecutive updates",
        fig1,
        "one seed, MNIST alone, 4 of 50 rounds",
        LENGTH,
        silent=3,
    ),
    _experiment("cad-fig2", "Fig. 2, §VII-B", "The obsolete factor γ", fig2, HALF, GAMMAS, LENGTHS),
    _experiment("cad-fig3", "Fig. 3, §VII-C", "Noise scale on MNIST", fig3, f"{HALF}, without σ = 0.5", PAIRS),
    _experiment("cad-fig4", "Fig. 4, §VII-C", "Noise scale on Fashion-MNIST", fig4, f"{HALF}, σ = 0.1 alone", PAIRS),
    _experiment("cad-fig5", "Fig. 5, §VII-D", "Number of participants", fig5, f"{HALF}, MNIST alone", COUNTS, LENGTHS),
    _experiment(
        "cad-fig6", "Fig. 6, §VII-E", "Data heterogeneity", fig6, f"{HALF}, MNIST alone", CLASSES, PAIRS, LENGTHS
    ),
)

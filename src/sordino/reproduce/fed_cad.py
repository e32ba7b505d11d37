"""Zhu et al. (2024), "Fed-CAD: Federated Learning with Correlation-aware Adaptive Local Differential Privacy"."""

from __future__ import annotations

from sordino.account.accountant import price
from sordino.account.published import fed_cad_schedule
from sordino.events import GaussianDpEvent, PoissonSampledDpEvent
from sordino.report.chart import Axis, Chart, Series
from sordino.reproduce.bench import UNBOUND, Bench, Runs
from sordino.reproduce.distances import distances
from sordino.reproduce.experiment import Experiment, Finding, Paper
from sordino.reproduce.line import Line, accuracy, impossible, statement

PAPER = Paper(
    "cad", "Federated Learning with Correlation-aware Adaptive Local Differential Privacy", "Zhu et al. (2024)"
)
PERCENT = Axis("test accuracy", percent=True, range=(0.0, 1.0))
BASE = [
    "partition.clients=100", "model.name=cnn_fed_cad", "train.learning_rate=0.01", "train.batch_size=60",
    "train.epochs=1", "select.kind=fixed", "select.size=10", "run.evaluate_every=2", UNBOUND,
]  # fmt: skip
CAD = ["mechanism.name=fed_cad", "mechanism.mode=faithful", "mechanism.clip_norm=1.0"]
START = {"mnist": 0.5, "fashion-mnist": 0.7}
ROUNDS = {"mnist": 30, "fashion-mnist": 60}
SHARED = (
    "Sizes of the network's layers are not stated: 10 and 20 channels of 5 × 5 with pooling, and 50 units.",
    "σ_Diff is in the text (“a small constant”) and not in the pseudo-code, which we follow.",
    "Fed-LDP is the same run with Diff = 1, where no noise is reused.",
)
CHANCE = 0.2
"""Ten classes: what stays below this has learnt nothing to speak of."""
DROWNED = (
    "10 messages with noise of σ·C on each of 21,840 weights average to a vector of norm 0.3·√21,840/√10 = 14, and an "
    "update has norm 1 at most: as printed, noise is all there is"
)


def fig1(bench: Bench) -> Finding:
    """Fig. 1: how far an update is from the client's last one, without noise, everybody in every round."""
    lines, charts = [], []
    for name in ("mnist", "fashion-mnist"):
        seen = distances(
            [*BASE, "select.kind=everyone", f"data.name={name}", "mechanism.name=fedavg"], bench.size(50, 12)
        )
        rounds = list(range(2, len(seen) + 2))
        mean, low, high = ([float(x) for x in column] for column in zip(*seen, strict=True))
        series = Series("mean and range over clients", rounds, mean, "line", 0, low=low, high=high)
        note = "‖u_t − u_{t−1}‖ of the same client; the band is from the least to the greatest."
        axes = Axis("round"), Axis("L2 distance")
        charts.append(Chart(f"cad-fig1-{name}", f"Fed-CAD, Fig. 1: {name}", note, *axes, (series,)))
        peak = mean.index(max(mean))
        lines += [
            statement(f"{name}: every distance", "smaller than 1", f"at most {max(high):.3f}", max(high) < 1),
            statement(
                f"{name}: course",
                "rises rapidly, then slowly decreases",
                f"{mean[0]:.3f}, {max(mean):.3f} in round {rounds[peak]}, {mean[-1]:.3f} at the end",
                mean[0] < max(mean) and mean[-1] < max(mean),
            ),
        ]
    return Finding(tuple(lines), tuple(charts))


def fig2(bench: Bench) -> Finding:
    """Fig. 2: the obsolete factor γ on MNIST, σ = 0.3."""
    plans = {f"γ = {g:g}": _cad("mnist", 0.3, g, bench) for g in (0.0, 0.2, 0.4, 0.6)}
    runs = bench.play(plans)
    end = {name: found.last()[0] for name, found in runs.items()}
    better = max(end[f"γ = {g:g}"] for g in (0.2, 0.4, 0.6)) > end["γ = 0"]
    shown = ", ".join(f"{name}: {100 * value:.1f} %" for name, value in end.items())
    line = _stated("accuracy at the end", "a larger γ eventually converges better", shown, better, runs)
    return Finding((line,), (_curves("cad-fig2", "Fed-CAD, Fig. 2: γ on MNIST", runs),))


def fig3(bench: Bench) -> Finding:
    """Fig. 3: noise scales on MNIST."""
    return _noise_scales("mnist", bench, "cad-fig3", {0.3: (0.02, 0.04), 0.5: (0.10, 0.16)}, {0.3: 2.72, 0.5: 1.5})


def fig4(bench: Bench) -> Finding:
    """Fig. 4: noise scales on Fashion-MNIST."""
    return _noise_scales("fashion-mnist", bench, "cad-fig4", {0.3: (0.04, 0.08)}, {0.3: 3.97})


def fig5(bench: Bench) -> Finding:
    """Fig. 5: the number of participants in a round."""
    lines, charts = [], []
    for name in bench.size(("mnist", "fashion-mnist"), ("mnist",)):
        for size in bench.size((10, 20, 50), (10, 30)):
            wide = [f"select.size={size}"]
            runs = bench.play({label: plan + wide for label, plan in _three(name, 0.3, bench).items()})
            lines.append(_beats(f"{name}, {size} participants", runs))
            charts.append(_curves(f"cad-fig5-{name}-{size}", f"Fed-CAD, Fig. 5: {name}, {size} a round", runs))
    return Finding(tuple(lines), tuple(charts))


def fig6(bench: Bench) -> Finding:
    """Fig. 6: data heterogeneity."""
    lines: list[Line] = []
    charts = []
    for name in bench.size(("mnist", "fashion-mnist"), ("mnist",)):
        for classes in bench.size((2, 5, 8), (2, 5)):
            skew = ["partition.kind=pathological", f"partition.classes_per_client={classes}"]
            runs = bench.play({label: plan + skew for label, plan in _three(name, 0.3, bench).items()})
            if name == "mnist" and classes == 2:
                lines.append(_level("mnist, 2 classes a client: Fed-LDP", 0.847, runs["Fed-LDP"]))
            lines.append(_beats(f"{name}, {classes} classes a client", runs))
            charts.append(_curves(f"cad-fig6-{name}-{classes}", f"Fed-CAD, Fig. 6: {name}, {classes} classes", runs))
    return Finding(tuple(lines), tuple(charts))


def _noise_scales(
    name: str, bench: Bench, key: str, gains: dict[float, tuple[float, float]], printed: dict[float, float]
) -> Finding:
    lines = [printed_epsilon(sigma, ROUNDS[name], value) for sigma, value in printed.items()]
    charts = []
    for sigma in bench.size((0.1, 0.3, 0.5), (0.1, 0.3)):
        runs = bench.play(_three(name, sigma, bench))
        base = runs["Fed-LDP"].last()[0]
        for place, label in enumerate(("constant Diff", "adaptive Diff")):
            if sigma in gains:
                lines.append(_gain(f"σ = {sigma:g}: {label} over Fed-LDP", gains[sigma][place], runs[label], base))
        charts.append(_curves(f"{key}-{sigma:g}", f"Fed-CAD, {name}, σ = {sigma:g}", runs))
    return Finding(tuple(lines), (*charts, _variances()), ("Accuracies as printed are in the figures alone.",))


def printed_epsilon(sigma: float, uploads: int, printed: float) -> Line:
    """Puts the printed ε beside what follows from σ, in the kindest readings that we can think of."""
    certified = price({GaussianDpEvent(sigma): uploads}, "exact").epsilon(1e-5)
    kind = price({PoissonSampledDpEvent(0.1, GaussianDpEvent(sigma)): uploads}, "rdp-classic").epsilon(1e-5)
    why = (
        f"{uploads} uploads of multiplier {sigma:g} cost {certified:.2f} (exact); a tenth of them, {uploads // 10}, "
        f"{price({GaussianDpEvent(sigma): uploads // 10}, 'exact').epsilon(1e-5):.2f}; were each one amplified by the "
        f"batch's rate of 0.1, {kind:.2f}"
    )
    return impossible(f"ε at σ = {sigma:g}, {uploads} rounds", f"{printed:g}", f"{certified:.2f}", why)


def _variances() -> Chart:
    series = tuple(
        Series(f"D = {d:g}", list(range(1, 13)), [float(v) for v in fed_cad_schedule(d, 12)[0]], "both", color)
        for color, d in enumerate((0.3, 0.5, 0.7))
    )
    note = "Noise variance of a client's t-th message over that of the first (Theorem VI.2): what correlation saves."
    axes = Axis("participation"), Axis("relative variance", range=(0.0, 1.05))
    return Chart("cad-variance", "Fed-CAD, Theorem VI.2", note, *axes, series)


def _level(quantity: str, printed: float, found: Runs) -> Line:
    mean, spread = found.last()
    if mean < CHANCE:
        return impossible(quantity, f"{100 * printed:.1f} %", f"{100 * mean:.1f} %", DROWNED)
    return accuracy(quantity, printed, mean, spread)


def _gain(quantity: str, printed: float, found: Runs, base: float) -> Line:
    mean = found.last()[0]
    if max(mean, base) < CHANCE:
        shown = f"{100 * base:.1f} % → {100 * mean:.1f} %"
        return impossible(quantity, f"{100 * printed:.0f} points more", shown, DROWNED)
    return accuracy(quantity, printed, mean - base)


def _cad(name: str, sigma: float, obsolete: float, bench: Bench, difference: float | None = None) -> list[str]:
    chosen = START[name] if difference is None else difference
    rounds = bench.size(ROUNDS[name], ROUNDS[name] // 2)
    own = [f"mechanism.noise_multiplier={sigma}", f"mechanism.obsolete={obsolete}", f"mechanism.difference={chosen}"]
    return [*BASE, *CAD, *own, f"data.name={name}", f"run.rounds={rounds}"]


def _three(name: str, sigma: float, bench: Bench) -> dict[str, list[str]]:
    return {
        "Fed-LDP": _cad(name, sigma, 0.0, bench, difference=1.0),
        "constant Diff": _cad(name, sigma, 0.0, bench),
        "adaptive Diff": _cad(name, sigma, 0.4, bench),
    }


def _beats(quantity: str, runs: dict[str, Runs]) -> Line:
    end = {label: found.last()[0] for label, found in runs.items()}
    shown = ", ".join(f"{label}: {100 * value:.1f} %" for label, value in end.items())
    ahead = min(end["constant Diff"], end["adaptive Diff"]) > end["Fed-LDP"]
    return _stated(quantity, "Fed-CAD always outperforms Fed-LDP", shown, ahead, runs)


def _stated(quantity: str, printed: str, ours: str, holds: bool, runs: dict[str, Runs]) -> Line:
    """Judges a statement about accuracies, which means nothing where all of them are chance."""
    if max(found.last()[0] for found in runs.values()) < CHANCE:
        return impossible(quantity, printed, ours, DROWNED)
    return statement(quantity, printed, ours, holds)


def _curves(key: str, title: str, runs: dict[str, Runs]) -> Chart:
    series = tuple(found.series(name, color) for color, (name, found) in enumerate(runs.items()))
    return Chart(key, title, "Ours, as printed.", Axis("round"), PERCENT, series)


EXPERIMENTS = (
    Experiment("cad-fig1", PAPER, "Fig. 1, §IV-B", "Distances between consecutive updates", fig1, choices=SHARED[:1]),
    Experiment("cad-fig2", PAPER, "Fig. 2, §VII-B", "The obsolete factor γ", fig2, choices=SHARED),
    Experiment("cad-fig3", PAPER, "Fig. 3, §VII-C", "Noise scale on MNIST", fig3, choices=SHARED),
    Experiment("cad-fig4", PAPER, "Fig. 4, §VII-C", "Noise scale on Fashion-MNIST", fig4, choices=SHARED),
    Experiment("cad-fig5", PAPER, "Fig. 5, §VII-D", "Number of participants", fig5, choices=SHARED),
    Experiment("cad-fig6", PAPER, "Fig. 6, §VII-E", "Data heterogeneity", fig6, choices=SHARED),
)

"""Xue et al. (2023), "Differentially Private Federated Learning with an Adaptive Noise Mechanism": Fig. 2 to 4."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sordino.account.published import xue_delta, xue_participations
from sordino.report.chart import Axis, Boxes, Chart, Series
from sordino.report.reading import RunView
from sordino.reproduce.bench import BY_CHANCE, Bench, Runs
from sordino.reproduce.experiment import Finding
from sordino.reproduce.line import Line, accuracy, impossible, points, statement
from sordino.reproduce.xue_scene import (
    CIFAR,
    DROWNED,
    FASHION,
    LEARNT,
    MNIST,
    NAMES,
    OURS,
    READINGS,
    SHARED,
    both_readings,
    client,
    experiment,
    judged,
    ours,
)

DELTA = 1e-5


def fig2(bench: Bench) -> Finding:
    """Fig. 2: parameters before and after truncation; noise plays no part in that, so none is added."""
    rounds, lines, charts = bench.size(100, 4), [], []
    for optimizer in bench.size(tuple(NAMES), ("sgd", "rmsprop")):
        quiet = ["mechanism.sensitivity_divisor=1e9", "mechanism.noise_multiplier=26", "run.notes=true"]
        plan = [*MNIST, *client(optimizer, 16), *OURS, *quiet, f"run.rounds={rounds}"]
        told = [_told(view) for view in bench.play({"": plan})[""].views]
        when, before, after = told[0]
        moved = max(_moved(one[1], one[2]) for one in told)
        lines.append(
            statement(
                NAMES[optimizer],
                "truncated values accurately reflect the trend of the original ones",
                f"quartiles move by at most {moved:.3f} of the interquartile range",
                moved < 0.1,
            )
        )
        charts.append(_boxes(f"xue-fig2-{optimizer}", f"Xue et al., Fig. 2: {NAMES[optimizer]}", when, before, after))
    return Finding(tuple(lines), tuple(charts))


def fig3(bench: Bench) -> Finding:
    """Fig. 3: accuracy under ε = 0.5, 2 and 8 with four optimisers, and δ spent."""
    lines = [silent(0.5, 26, 4), silent(2.0, 26, 60), silent(8.0, 10, 100)]
    charts = [_delta_chart()]
    printed = {"sgd": 0.8758, "momentum": 0.9045, "adam": 0.9498, "rmsprop": 0.9685}
    for budget, sigma0 in ((0.5, 26), (2.0, 26), (8.0, 10)):
        uploads = xue_participations(budget, sigma0, DELTA)
        chosen = bench.size(tuple(NAMES), ("rmsprop",))
        runs = both_readings(bench, MNIST, chosen, 16, sigma0, bench.size(uploads, 2))
        charts.append(_curves(f"xue-fig3-{budget:g}", f"Xue et al., Fig. 3: ε = {budget:g}", _flat(runs)))
        for optimizer, readings in runs.items():
            told = printed[optimizer] if budget == 0.5 else 0.97
            if budget == 2.0:
                lines.append(_settled(f"ε = {budget:g}, {NAMES[optimizer]}", readings))
            else:
                lines.append(judged(f"ε = {budget:g}, {NAMES[optimizer]}", told, readings))
    return Finding(tuple(lines), tuple(charts))


def fig4a(bench: Bench) -> Finding:
    """Fig. 4(a): accuracy lost against training without noise, MNIST, ε = 0.5."""
    printed = {"sgd": 0.0329, "momentum": 0.0238, "adam": 0.0171, "rmsprop": 0.0039}
    return _losses(bench, "xue-fig4a", MNIST, 0.5, printed, bench.size(7, 1))


def fig4b(bench: Bench) -> Finding:
    """Fig. 4(b): accuracy lost, Fashion-MNIST, ε = 1."""
    printed = {"sgd": 0.038, "momentum": 0.0346, "adam": 0.0197, "rmsprop": 0.0167}
    rounds = bench.size(xue_participations(1.0, 26, DELTA), 1)
    return _losses(bench, "xue-fig4b", FASHION, 1.0, printed, rounds)


def fig4c(bench: Bench) -> Finding:
    """Fig. 4(c): accuracy lost, CIFAR-10, ε = 2."""
    printed = {"sgd": 0.0317, "momentum": 0.0296, "adam": 0.0151, "rmsprop": 0.0103}
    return _losses(bench, "xue-fig4c", CIFAR, 2.0, printed, bench.size(20, 1))


def fig4d(bench: Bench) -> Finding:
    """Fig. 4(d): against other noise mechanisms, MNIST."""
    lines = []
    for budget, mine, geometric in ((0.3, 0.8726, 0.7221), (0.5, 0.9370, 0.7351)):
        rounds = min(xue_participations(budget, 26, DELTA), bench.size(10**6, 1))
        scene = [*MNIST, *client("rmsprop", 32), f"run.rounds={rounds}"]
        plans = {name: [*scene, *ours(26, name)] for name in READINGS}
        other = [
            "mechanism.name=geometric",
            "mechanism.mode=faithful",
            "mechanism.clip_norm=5",
            f"budget.epsilon={budget}",
        ]
        runs = bench.play(plans | {"GeoDP": [*scene, *other]})
        lines.append(judged(f"ε = {budget:g}, ours", mine, {name: runs[name] for name in READINGS}))
        lines.append(accuracy(f"ε = {budget:g}, GeoDP (Yuan et al.)", geometric, *runs["GeoDP"].last()))
    missing = "adap DP-FL, PrivateDL, DP-dyns and Fed-αCDP are not part of sordino, and their settings are not stated"
    lines.append(impossible("four other mechanisms", "52.87 % … 84.23 %", "–", missing))
    return Finding(tuple(lines))


def _losses(
    bench: Bench,
    key: str,
    data: list[str],
    budget: float,
    printed: Mapping[str, float],
    rounds: int,
) -> Finding:
    chosen = bench.size(tuple(NAMES), ("rmsprop",))
    batch = 62 if data is CIFAR else 75
    noisy = both_readings(bench, data, chosen, 32, 26, rounds, batch)
    plans = {o: [*data, *client(o, 32), "mechanism.name=fedavg", f"run.rounds={rounds}"] for o in chosen}
    silent = bench.play(plans)
    lines = []
    for optimizer in chosen:
        base = silent[optimizer].last()[0]
        lost = {name: base - runs.last()[0] for name, runs in noisy[optimizer].items()}
        shown = ", ".join(f"{100 * value:.2f} ({name})" for name, value in lost.items()) + " points"
        near = min(lost.values(), key=lambda value: abs(value - printed[optimizer]))
        quantity = f"ε = {budget:g}, {NAMES[optimizer]}: accuracy lost"
        if abs(near - printed[optimizer]) <= 0.02:
            lines.append(points(quantity, printed[optimizer], near))
        else:
            lines.append(impossible(quantity, f"{100 * printed[optimizer]:+.2f} points", shown, DROWNED))
    curves = {f"{NAMES[o]}, no noise": silent[o] for o in chosen} | _flat(noisy)
    return Finding(tuple(lines), (_curves(key, f"Xue et al., {key[4:]}", curves),))


def silent(budget: float, sigma0: float, rounds: int) -> Line:
    """Judges a remark on Fig. 3: up to this round δ is so small that it looks like zero."""
    share = xue_delta(budget, rounds, sigma0, DELTA) / DELTA
    allowed = xue_participations(budget, sigma0, DELTA)
    return statement(
        f"δ at ε = {budget:g}, σ0 = {sigma0:g}, after {rounds} rounds",
        "appears to be 0",
        f"{share:.1e} of δ* (which allows {allowed} uploads)",
        share < 0.01,
    )


def _delta_chart() -> Chart:
    series = []
    for color, (budget, sigma0) in enumerate(((0.5, 26.0), (2.0, 26.0), (8.0, 10.0))):
        uploads = list(range(1, xue_participations(budget, sigma0, DELTA) + 1))
        spent = [xue_delta(budget, n, sigma0, DELTA) for n in uploads]
        series.append(Series(f"ε = {budget:g}, σ0 = {sigma0:g}", uploads, spent, "line", color))
    note = "δ of Eq. (12) by upload, until the next one would exceed δ* = 1e-5."
    return Chart(
        "xue-fig3-delta", "Xue et al., Fig. 3: δ spent", note, Axis("uploads", log=True), Axis("δ"), tuple(series)
    )


def _settled(quantity: str, readings: Mapping[str, Runs]) -> Line:
    """Judges whether a curve has converged after round 20: from there on it moves by two points at most."""
    printed = "converges after round 20"
    best = max(readings.values(), key=lambda runs: runs.last()[0])
    if best.last()[0] < LEARNT:
        return impossible(quantity, printed, f"{100 * best.last()[0]:.2f} %", DROWNED)
    path = best.series("", 0)
    late = [float(y) for x, y in zip(path.x, path.y, strict=True) if float(x) > 20 and y is not None]
    moved = max(late) - min(late) if late else float("nan")
    return statement(quantity, printed, f"moves by {100 * moved:.2f} points from then on", moved <= 0.02)


def _flat(runs: Mapping[str, Mapping[str, Runs]]) -> dict[str, Runs]:
    return {f"{NAMES[o]}, {name}": found for o, readings in runs.items() for name, found in readings.items()}


def _curves(key: str, title: str, runs: Mapping[str, Runs]) -> Chart:
    series = tuple(found.series(name, color) for color, (name, found) in enumerate(runs.items()))
    axis = Axis("test accuracy", percent=True, range=(0.0, 1.0))
    note = "Ours, in both readings of the noise."
    return Chart(key, title, note, Axis("round"), axis, series, (BY_CHANCE,), wide=True)


def _told(view: RunView) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns rounds, and the five numbers of one client's parameters before and after truncation."""
    return view.notes["round"], view.notes["original"][:, 0], view.notes["truncated"][:, 0]


def _moved(before: np.ndarray, after: np.ndarray) -> float:
    """Returns how far truncation moves a quartile at most, in interquartile ranges."""
    spread = before[:, 3] - before[:, 1]
    return float(np.abs(after[:, 1:4] - before[:, 1:4]).max() / spread.mean())


def _boxes(key: str, title: str, when: np.ndarray, before: np.ndarray, after: np.ndarray) -> Chart:
    chosen = np.unique(np.linspace(0, len(when) - 1, min(len(when), 10)).astype(int))
    names = [str(int(when[place])) for place in chosen]

    def box(label: str, rows: np.ndarray, color: int) -> Boxes:
        fives = [tuple(float(x) for x in rows[place][:5]) for place in chosen]
        return Boxes(label, names, fives, color)  # type: ignore[arg-type]

    pair = (box("original value", before, 0), box("estimation", after, 1))
    note = "Parameters of one client: least, quartiles and greatest, before and after truncation."
    return Chart(key, title, note, Axis("round", categories=True), Axis("parameter"), pair)


RIVAL = "The optimiser is not stated: RMSprop. GeoDP's settings are those of its own paper."
EXPERIMENTS = (
    experiment(
        "xue-fig2", "Fig. 2, §VI-B", "Sensitivity estimates", fig2, "two optimisers, 4 of 100 rounds", SHARED[:2]
    ),
    experiment("xue-fig3", "Fig. 3, §VI-B", "Accuracy under different budgets", fig3, "RMSprop, one seed, 2 rounds"),
    experiment("xue-fig4a", "Fig. 4(a), §VI-B", "Accuracy lost, MNIST", fig4a, "RMSprop, one seed, one of 7 rounds"),
    experiment("xue-fig4b", "Fig. 4(b), §VI-B", "Accuracy lost, Fashion-MNIST", fig4b, "RMSprop, one seed, one round"),
    experiment("xue-fig4c", "Fig. 4(c), §VI-B", "Accuracy lost, CIFAR-10", fig4c, "RMSprop, one seed, one round"),
    experiment(
        "xue-fig4d", "Fig. 4(d), §VI-B", "Against other mechanisms", fig4d, "one seed, one round", (*SHARED, RIVAL)
    ),
)

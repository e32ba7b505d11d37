"""Xue et al. (2023), "Differentially Private Federated Learning with an Adaptive Noise Mechanism": Fig. 2 to 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from papers.charts import beside
from papers.experiment import ExperimentResult
from papers.experiment_runner import BY_CHANCE, ExperimentRun, ExperimentRunner, SeedRuns
from papers.printed_line import PrintedLine, accuracy, ahead_by, left_out, points, statement
from papers.xue_charts import boxes, curves, ends, spending
from papers.xue_scene import (
    CIFAR,
    CLIENTS,
    DELTA,
    FASHION,
    LEARNT,
    MNIST,
    NAMES,
    OURS,
    READINGS,
    SHARED,
    allowed,
    beyond,
    both_readings,
    client,
    experiment,
    judged,
    ours,
)
from sordino.account.accountants.published import xue_delta, xue_participations
from sordino.charts import Axis

RIVALS = {
    0.3: {"adap DP-FL": 0.5287, "PrivateDL": 0.6959, "GeoDP": 0.7221, "DP-dyns": 0.7720, "Fed-αCDP": 0.8014},
    0.5: {"adap DP-FL": 0.7125, "PrivateDL": 0.8211, "GeoDP": 0.7351, "DP-dyns": 0.8308, "Fed-αCDP": 0.8423},
}
"""Printed accuracies of Fig. 4(d) by ε; GeoDP is Yuan et al.'s mechanism."""
NOISY = "noise is all that is left of ours"
PLAYED = {
    "adap DP-FL": ["mechanism.name=adap_dp_fl", "mechanism.clip_norm=1"],
    "PrivateDL": ["mechanism.name=private_dl"],
    "GeoDP": ["mechanism.name=geometric", "mechanism.clip_norm=5"],
    "DP-dyns": ["mechanism.name=dp_dyns", "mechanism.clip_norm=4"],
    "Fed-αCDP": ["mechanism.name=fed_alpha_cdp", "mechanism.clip_norm=4"],
}
"""The rivals' settings; all but GeoDP are mechanisms of `papers/rivals`, registered when they are played."""


def fig2(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 2: parameters before and after truncation, of which Eq. (2) and (3) know no noise, so none is added."""
    quiet = ["mechanism.sensitivity_divisor=1e9", "mechanism.noise_multiplier=26", "run.notes=true"]
    plan, lines, charts = [*MNIST, *OURS, *quiet, f"run.rounds={runner.size(100, 4)}"], [], []
    for optimizer, found in runner.play({o: [*plan, *client(o, 16)] for o in NAMES}).items():
        told = [_told(view) for view in found.views]
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
        charts.append(boxes(f"xue-fig2-{optimizer}", f"Xue et al., Fig. 2: {NAMES[optimizer]}", when, before, after))
    return ExperimentResult(tuple(lines), tuple(charts))


def fig3(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 3: accuracy under ε = 0.5, 2 and 8 with four optimisers, and δ spent."""
    lines = [silent(0.5, 26, 4), silent(2.0, 26, 60), silent(8.0, 10, 100)]
    charts = [spending(((0.5, 26.0), (2.0, 26.0), (8.0, 10.0)))]
    high = {"sgd": 0.8758, "momentum": 0.9045, "adam": 0.9498, "rmsprop": 0.9685}
    for budget, sigma0, printed in ((0.5, 26, high), (2.0, 26, {}), (8.0, 10, dict.fromkeys(NAMES, 0.97))):
        runs = both_readings(runner, MNIST, tuple(NAMES), 16, sigma0, allowed(runner, budget, sigma0))
        draw = runner.size(curves, ends)
        charts.append(draw(f"xue-fig3-{budget:g}", f"Xue et al., Fig. 3: ε = {budget:g}", runs, printed))
        for optimizer, readings in runs.items():
            quantity = f"ε = {budget:g}, {NAMES[optimizer]}"
            if optimizer in printed:
                line = judged(quantity, printed[optimizer], readings)
                lines.append(line if printed is high else replace(line, printed="around 97 %"))
            else:
                lines.append(_settled(quantity, readings))
    return ExperimentResult(tuple(lines), tuple(charts))


def fig4a(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4(a): accuracy lost against training without noise, MNIST, ε = 0.5."""
    printed = {"sgd": 0.0329, "momentum": 0.0238, "adam": 0.0171, "rmsprop": 0.0039}
    return _losses(runner, "a", MNIST, 0.5, printed)


def fig4b(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4(b): accuracy lost, Fashion-MNIST, ε = 1."""
    printed = {"sgd": 0.038, "momentum": 0.0346, "adam": 0.0197, "rmsprop": 0.0167}
    return _losses(runner, "b", FASHION, 1.0, printed)


def fig4c(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4(c): accuracy lost, CIFAR-10, ε = 2."""
    printed = {"sgd": 0.0317, "momentum": 0.0296, "adam": 0.0151, "rmsprop": 0.0103}
    return _losses(runner, "c", CIFAR, 2.0, printed)


def fig4d(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4(d): against other noise mechanisms, MNIST."""
    from papers import rivals  # registers mechanisms: only where they are played

    rivals.admit()
    lines: list[PrintedLine] = []
    columns: dict[str, list[float | None]] = {}
    for budget, mine in ((0.3, 0.8726), (0.5, 0.9370)):
        scene = [*MNIST, *client("rmsprop", 32), f"run.rounds={allowed(runner, budget, 26)}"]
        plans = {name: [*scene, *ours(26, name)] for name in READINGS}
        faithful = ["mechanism.mode=faithful", f"budget.epsilon={budget}"]
        runs = runner.play(plans | {name: [*scene, *rival, *faithful] for name, rival in PLAYED.items()})
        lines.append(judged(f"ε = {budget:g}, ours", mine, {name: runs[name] for name in READINGS}))
        printed = RIVALS[budget]
        lines += [accuracy(f"ε = {budget:g}, {name}", value, *runs[name].last()) for name, value in printed.items()]
        lines.append(ahead(budget, runs))
        columns[f"ε = {budget:g}, printed"] = [mine, mine, *printed.values()]
        columns[f"ε = {budget:g}, ours"] = [runs[name].last()[0] for name in (*READINGS, *printed)]
    places = [*(f"Xue et al., {name}" for name in READINGS), *RIVALS[0.3]]
    axis = Axis("test accuracy", percent=True, range=(0.0, 1.0))
    chart = beside("xue-fig4d", "Xue et al., Fig. 4(d)", "mechanism", places, columns, axis, (BY_CHANCE,))
    return ExperimentResult(tuple(lines), (chart,))


def ahead(budget: float, runs: Mapping[str, SeedRuns]) -> PrintedLine:
    """Judges whether the mechanism, in one of the two readings, is ahead of every rival."""
    ends = {name: found.last()[0] for name, found in runs.items()}
    mine = max(READINGS, key=lambda name: ends[name])
    best = max((name for name in ends if name not in READINGS), key=lambda name: ends[name])
    shown = ", ".join(f"{100 * ends[name]:.2f} % ({name})" for name in READINGS)
    told = f"{shown}; best rival: {best} {100 * ends[best]:.2f} %"
    return ahead_by(f"ε = {budget:g}: ours", "performs best", told, *runs[mine].lead(runs[best]), NOISY)


def _losses(
    runner: ExperimentRunner, part: str, data: list[str], budget: float, printed: Mapping[str, float]
) -> ExperimentResult:
    rounds, batch = allowed(runner, budget, 26), 62 if data is CIFAR else 75
    noisy = both_readings(runner, data, tuple(NAMES), 32, 26, rounds, batch)
    plans = {o: [*data, *client(o, 32), "mechanism.name=fedavg", f"run.rounds={rounds}"] for o in NAMES}
    free = runner.play(plans)
    lost = {o: {name: free[o].lead(noisy[o][name]) for name in READINGS} for o in NAMES}
    lines = [
        _loss(f"ε = {budget:g}, {NAMES[o]}: accuracy lost", value, free[o].last()[0], lost[o], noisy[o])
        for o, value in printed.items()
    ]
    columns = {"printed": [printed[o] for o in NAMES]}
    columns |= {f"ours, {name}": [lost[o][name][0] for o in NAMES] for name in READINGS}
    title, names = f"Xue et al., Fig. 4({part})", list(NAMES.values())
    bars = beside(f"xue-fig4{part}-lost", title, "optimiser", names, columns, Axis("accuracy lost", percent=True))
    every = {o: {"no noise": free[o], **noisy[o]} for o in NAMES}
    aim = {o: free[o].last()[0] - printed[o] for o in NAMES}
    return ExperimentResult(tuple(lines), runner.size((bars, curves(f"xue-fig4{part}", title, every, aim)), (bars,)))


def _loss(
    quantity: str, printed: float, base: float, lost: Mapping[str, tuple[float, float]], noisy: Mapping[str, SeedRuns]
) -> PrintedLine:
    """Judges how much accuracy noise costs, in the reading that comes nearest, where there is any to lose."""
    near, spread = min(lost.values(), key=lambda found: abs(found[0] - printed))
    line = points(quantity, printed, near, spread=spread)
    if line.status != "differs" and base >= LEARNT:
        return line
    shown = ", ".join(f"{100 * value:+.2f} ({name})" for name, (value, _) in lost.items()) + " points"
    return beyond(quantity, f"{100 * printed:+.2f} points", shown, noisy)


def silent(budget: float, sigma0: float, rounds: int) -> PrintedLine:
    """Judges a remark on Fig. 3: up to this round δ is so small that it looks like zero."""
    share = xue_delta(budget, rounds, sigma0, DELTA) / DELTA
    allowed = xue_participations(budget, sigma0, DELTA)
    return statement(
        f"δ at ε = {budget:g}, σ0 = {sigma0:g}, after {rounds} rounds",
        "appears to be 0",
        f"{share:.1e} of δ* (which allows {allowed} uploads)",
        share < 0.01,
    )


def _settled(quantity: str, readings: Mapping[str, SeedRuns]) -> PrintedLine:
    """Judges whether a curve has converged after round 20: from there on it moves by two points at most."""
    printed = "converges after round 20"
    best = max(readings.values(), key=lambda runs: runs.last()[0])
    if best.last()[0] < LEARNT:
        return beyond(quantity, printed, f"{100 * best.last()[0]:.2f} %", readings)
    path = best.series("", 0)
    late = [float(y) for x, y in zip(path.x, path.y, strict=True) if float(x) > 20 and y is not None]
    if not late:
        return left_out(quantity, printed, "the run ends before")
    moved = max(late) - min(late)
    return statement(quantity, printed, f"moves by {100 * moved:.2f} points from then on", moved <= 0.02)


def _told(view: ExperimentRun) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns rounds, and the five numbers of one client's parameters before and after truncation."""
    return view.notes["round"][:, 0], view.notes["original"], view.notes["truncated"]


def _moved(before: np.ndarray, after: np.ndarray) -> float:
    """Returns how far truncation moves a quartile at most, in interquartile ranges."""
    spread = before[:, 3] - before[:, 1]
    return float(np.abs(after[:, 1:4] - before[:, 1:4]).max() / spread.mean())


QUIET = (
    "K, rounds and σ0 are not stated for Fig. 2, but ε = 2.0: K = 16 and 100 rounds, of the 108 that it allows at "
    "σ0 = 26. Noise is divided by 1e9, so that there is none: the paper says that ε plays no part, and with the "
    "printed noise a client would begin each round at weights that are noise. A tenth of the interquartile range is "
    "where we say that quartiles move."
)
LEVEL = "σ0 is not stated for Fig. 4: 26, as for ε = 0.5 and 2 in Fig. 3."
RIVAL = (
    "Neither the data, the optimiser nor K is stated: MNIST, RMSprop, and 32 as for the rest of Fig. 4. GeoDP's C is "
    "its own paper's, ϑ is 1.05. All rivals have the same rounds, 2 and 7, and the noise for which they claim ε then."
)
OTHERS = (
    "The rivals' settings are not stated. PrivateDL (Han et al.): sensitivity by three sigma, nothing clipped. "
    "DP-dyns (Wei and Liu): C = 4, noise by the longest gradient of each batch, σ constant. Fed-αCDP (Wei et al.): the "
    "same layer by layer, σ falling linearly to a half. adap DP-FL (Fu et al.): thresholds from a client's last noisy "
    "gradients, α = 1, first threshold 1; its σ falls by a validation loss, of which there is none here.",
    "Of adap DP-FL the claimed ε is certified, for records; of the others nothing is (they scale noise by the batch "
    "that it should hide).",
)
FOUR = (*SHARED, LEVEL)
ONE = "one seed, one round"
EXPERIMENTS = (
    experiment("xue-fig2", "Fig. 2, §VI-B", "Sensitivity estimates", fig2, "4 of 100 rounds", (*CLIENTS, QUIET)),
    experiment("xue-fig3", "Fig. 3, §VI-B", "Accuracy under different budgets", fig3, ONE),
    experiment("xue-fig4a", "Fig. 4(a), §VI-B", "Accuracy lost, MNIST", fig4a, ONE, FOUR),
    experiment("xue-fig4b", "Fig. 4(b), §VI-B", "Accuracy lost, Fashion-MNIST", fig4b, ONE, FOUR),
    experiment(
        "xue-fig4c",
        "Fig. 4(c), §VI-B",
        "Accuracy lost, CIFAR-10",
        fig4c,
        ONE,
        FOUR,
        "CIFAR-10",
    ),
    experiment(
        "xue-fig4d",
        "Fig. 4(d), §VI-B",
        "Against other mechanisms",
        fig4d,
        ONE,
        (*FOUR, RIVAL, *OTHERS),
    ),
)

"""How the experiments of Fed-CAD are judged: statements about accuracies mean something only above chance."""

from __future__ import annotations

import numpy as np

from papers.bench import Runs
from papers.line import Line, accuracy, points, statement
from papers.noise import norm_told, piled_up_told

KINDS = ("constant Diff", "adaptive Diff")
CHANCE = 0.2
"""Ten classes: what stays below this has learnt nothing to speak of."""


def level(quantity: str, printed: float, found: Runs) -> Line:
    """Judges an accuracy."""
    mean, spread = found.last()
    return accuracy(quantity, printed, mean, spread, why=_told(found) if mean < CHANCE else "")


def gained(quantity: str, printed: float, found: Runs, base: float) -> Line:
    """Judges how much accuracy is gained over Fed-LDP's, which means nothing where neither has any."""
    mean = found.last()[0]
    if max(mean, base) < CHANCE:
        shown = f"{100 * base:.1f} % → {100 * mean:.1f} %"
        return statement(quantity, told_gain(printed), shown, False, _told(found))
    return points(quantity, printed, mean - base)


def told_gain(printed: float) -> str:
    """Returns a printed gain, as `points` shows it."""
    return f"{100 * printed:+.2f} points"


def at_a_third(found: Runs) -> float:
    """Returns the mean accuracy at the last look within the first third of the rounds."""
    path = found.series("", 0)
    third = int(found.rounds()) / 3
    return next(
        float(y) for x, y in reversed(list(zip(path.x, path.y, strict=True))) if float(x) <= third and y is not None
    )


def by_thirds(scene: str, runs: dict[str, Runs]) -> list[str]:
    """Returns a remark on the course of accuracies, where any is above chance: their means over thirds."""
    paths = {label: [y for y in found.series("", 0).y if y is not None] for label, found in runs.items()}
    if max(max(path) for path in paths.values()) < CHANCE:
        return []
    thirds = {label: [100 * float(np.mean(part)) for part in np.array_split(path, 3)] for label, path in paths.items()}
    told = "; ".join(f"{label} {', '.join(f'{mean:.1f}' for mean in means)}" for label, means in thirds.items())
    return [f"{scene}, mean accuracy (%) over the first, second and last third of the rounds: {told}."]


def early_on(quantity: str, printed: str, early: dict[str, float], holds: bool, runs: dict[str, Runs]) -> Line:
    """Judges a statement about the beginning, which means nothing while all are still at chance."""
    line = stated(quantity, printed, listed(early), holds, runs)
    if line.status == "equal" and max(early.values()) < CHANCE:
        return statement(quantity, printed, line.ours, False, "all of them are still at chance by then")
    return line


def listed(values: dict[str, float]) -> str:
    """Returns accuracies as a list to read."""
    return ", ".join(f"{name}: {100 * value:.1f} %" for name, value in values.items())


def little_noise(runs: dict[str, Runs]) -> list[Line]:
    """Judges σ = 0.1: Fed-CAD is slower, and ends where Fed-LDP does (within two points)."""
    end = {label: found.last()[0] for label, found in runs.items()}
    early = {label: at_a_third(found) for label, found in runs.items()}
    third = "σ = 0.1: accuracy after a third of the rounds"
    near = max(abs(end[label] - end["Fed-LDP"]) for label in KINDS) < 0.02
    slower = max(early[label] for label in KINDS) < early["Fed-LDP"]
    return [
        stated("σ = 0.1: accuracy at the end", "nearly the same for all", listed(end), near, runs),
        early_on(third, "Fed-CAD is slower than Fed-LDP", early, slower, runs),
    ]


def better_kind(quantity: str, many: bool, runs: dict[str, Runs]) -> Line:
    """Judges which Diff is better: the constant one with few participants, the adaptive one with many."""
    constant, adaptive = (runs[label].last()[0] for label in KINDS)
    printed = "adaptive Diff is better" if many else "constant Diff is better"
    shown = f"constant: {100 * constant:.1f} %, adaptive: {100 * adaptive:.1f} %"
    return stated(quantity, printed, shown, (adaptive > constant) == many, runs)


def beats(quantity: str, runs: dict[str, Runs]) -> Line:
    """Judges whether both kinds of Fed-CAD are ahead of Fed-LDP."""
    end = {label: found.last()[0] for label, found in runs.items()}
    ahead = min(end[label] for label in KINDS) > end["Fed-LDP"]
    why = "" if ahead else piled_up_told(runs[KINDS[0]].views[0].recipe)
    return stated(quantity, "Fed-CAD always outperforms Fed-LDP", listed(end), ahead, runs, why)


def stated(quantity: str, printed: str, ours: str, holds: bool, runs: dict[str, Runs], why: str = "") -> Line:
    """Judges a statement about accuracies, which means nothing where all of them are chance: then it differs.

    It is not called impossible: with more participants the same noise leaves something to learn from.
    """
    if max(found.last()[0] for found in runs.values()) < CHANCE:
        return statement(quantity, printed, ours, False, _told(next(iter(runs.values()))))
    return statement(quantity, printed, ours, holds, why)


def _told(found: Runs) -> str:
    return f"ends at chance: {norm_told(found.views[0].recipe)}"

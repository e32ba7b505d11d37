"""How the experiments of Fed-CAD are judged: statements about accuracies mean something only above chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from papers.experiment_runner import SeedRuns
from papers.noise import norm_told, piled_up_told
from papers.printed_line import PrintedLine, accuracy, ahead_by, all_ahead, points, statement

KINDS = ("constant Diff", "adaptive Diff")
CHANCE = 0.2
"""Ten classes: what stays below this has learnt nothing to speak of."""


def level(quantity: str, printed: float, found: SeedRuns) -> PrintedLine:
    """Judges an accuracy."""
    mean, spread = found.last()
    return accuracy(quantity, printed, mean, spread, why=_told(found) if mean < CHANCE else "")


def gained(quantity: str, printed: float, found: SeedRuns, base: SeedRuns) -> PrintedLine:
    """Judges how much accuracy is gained over Fed-LDP's, which means nothing where neither has any."""
    mean, other = found.last()[0], base.last()[0]
    if max(mean, other) < CHANCE:
        shown = f"{100 * other:.1f} % → {100 * mean:.1f} %"
        return statement(quantity, told_gain(printed), shown, False, _told(found))
    gain, spread = found.lead(base)
    return points(quantity, printed, gain, spread=spread)


def told_gain(printed: float) -> str:
    """Returns a printed gain, as `points` shows it."""
    return f"{100 * printed:+.2f} points"


def thirds(found: SeedRuns) -> np.ndarray:
    """Returns the accuracy at the last look within the first third of the rounds, seed by seed."""
    third = found.rounds() / 3
    return np.array([
        [line["accuracy"] for line in view.rounds if line["round"] <= third and line.get("accuracy") is not None][-1]
        for view in found.views
    ])  # fmt: skip


def at_a_third(found: SeedRuns) -> float:
    """Returns the mean accuracy at the last look within the first third of the rounds."""
    return float(thirds(found).mean())


def early_lead(found: SeedRuns, base: SeedRuns) -> tuple[float, float]:
    """Returns how far one is ahead of another after a third of the rounds: mean and standard deviation over seeds."""
    apart = thirds(found) - thirds(base)
    return float(apart.mean()), float(apart.std(ddof=1)) if len(apart) > 1 else 0.0


def by_thirds(scene: str, runs: dict[str, SeedRuns]) -> list[str]:
    """Returns a remark on the course of accuracies, where any is above chance: their means over thirds."""
    paths = {label: [y for y in found.series("", 0).y if y is not None] for label, found in runs.items()}
    if max(max(path) for path in paths.values()) < CHANCE:
        return []
    thirds = {label: [100 * float(np.mean(part)) for part in np.array_split(path, 3)] for label, path in paths.items()}
    told = "; ".join(f"{label} {', '.join(f'{mean:.1f}' for mean in means)}" for label, means in thirds.items())
    return [f"{scene}, mean accuracy (%) over the first, second and last third of the rounds: {told}."]


def early_on(
    quantity: str, printed: str, leads: Sequence[tuple[float, float]], runs: Mapping[str, SeedRuns]
) -> PrintedLine:
    """Judges leads after a third of the rounds, which mean nothing while all are still at chance."""
    early = {name: at_a_third(found) for name, found in runs.items()}
    line = alive(all_ahead(quantity, printed, listed(early), leads), runs)
    if line.status == "equal" and max(early.values()) < CHANCE:
        return statement(quantity, printed, line.ours, False, "all of them are still at chance by then")
    return line


def listed(values: dict[str, float]) -> str:
    """Returns accuracies as a list to read."""
    return ", ".join(f"{name}: {100 * value:.1f} %" for name, value in values.items())


def little_noise(runs: dict[str, SeedRuns]) -> list[PrintedLine]:
    """Judges σ = 0.1: Fed-CAD is slower, and ends where Fed-LDP does (within two points)."""
    end = {label: found.last()[0] for label, found in runs.items()}
    third = "σ = 0.1: accuracy after a third of the rounds"
    apart = [runs[label].lead(runs["Fed-LDP"]) for label in KINDS]
    near = all_ahead(
        "σ = 0.1: accuracy at the end",
        "nearly the same for all",
        listed(end),
        [(0.02 - abs(gap), s) for gap, s in apart],
    )
    slower = [early_lead(runs["Fed-LDP"], runs[label]) for label in KINDS]
    return [alive(near, runs), early_on(third, "Fed-CAD is slower than Fed-LDP", slower, runs)]


def better_kind(quantity: str, many: bool, runs: dict[str, SeedRuns]) -> PrintedLine:
    """Judges which Diff is better: the constant one with few participants, the adaptive one with many."""
    constant, adaptive = (runs[label] for label in KINDS)
    printed = "adaptive Diff is better" if many else "constant Diff is better"
    shown = f"constant: {100 * constant.last()[0]:.1f} %, adaptive: {100 * adaptive.last()[0]:.1f} %"
    lead = adaptive.lead(constant) if many else constant.lead(adaptive)
    return alive(ahead_by(quantity, printed, shown, *lead), runs)


def beats(quantity: str, runs: dict[str, SeedRuns]) -> PrintedLine:
    """Judges whether both kinds of Fed-CAD are ahead of Fed-LDP, by the one with the smaller lead."""
    end = {label: found.last()[0] for label, found in runs.items()}
    lead, spread = min(runs[label].lead(runs["Fed-LDP"]) for label in KINDS)
    why = piled_up_told(runs[KINDS[0]].views[0].recipe)
    printed = "Fed-CAD always outperforms Fed-LDP"
    return alive(ahead_by(quantity, printed, listed(end), lead, spread, why), runs)


def stated(
    quantity: str, printed: str, ours: str, holds: bool, runs: dict[str, SeedRuns], why: str = ""
) -> PrintedLine:
    """Judges a statement about accuracies, which means nothing where all of them are chance: then it differs."""
    return alive(statement(quantity, printed, ours, holds, why), runs)


def alive(line: PrintedLine, runs: Mapping[str, SeedRuns]) -> PrintedLine:
    """Returns the line, or one that differs where all runs ended at chance.

    It is not called impossible: with more participants the same noise leaves something to learn from.
    """
    if max(found.last()[0] for found in runs.values()) >= CHANCE:
        return line
    return statement(line.quantity, line.printed, line.ours, False, _told(next(iter(runs.values()))))


def _told(found: SeedRuns) -> str:
    return f"ends at chance: {norm_told(found.views[0].recipe)}"

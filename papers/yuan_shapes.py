"""How curves of Yuan et al. (2023) are judged by their shape: convex or concave in M, divergence, the early stage.

Every judgement is over the seeds: a curve bends the wrong way, or a difference has the wrong sign, only where it does
so by more than two standard deviations of the seeds (`ahead_by`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from papers.experiment_runner import SeedRuns
from papers.printed_line import SPREADS, PrintedLine, ahead_by

EARLY = 5
"""So many aggregations count as the early stage."""


def bent(name: str, row: Mapping[int, SeedRuns], field: str) -> PrintedLine:
    """Judges whether loss is convex, or accuracy concave, in M.

    At every M but the first and the last, the value is compared with the straight line between both neighbours; the one
    that lies most clearly on the wrong side of it decides.
    """
    sign = 1 if field == "loss" else -1
    lengths = sorted(row)
    values = {m: ends(row[m], field) for m in lengths}
    bends = {}
    for before, m, after in zip(lengths, lengths[1:], lengths[2:], strict=False):
        share = (m - before) / (after - before)
        bends[m] = spread(sign * ((1 - share) * values[before] + share * values[after] - values[m]))
    worst = min(bends, key=lambda m: bends[m][0] + SPREADS * bends[m][1])
    wrong = [m for m, (mean, _) in bends.items() if mean < 0]
    shown = f"bends the other way at M = {', '.join(map(str, wrong))}" if wrong else f"at all {len(bends)} inner M"
    printed = "convex in M" if field == "loss" else "concave in M"
    return ahead_by(f"{field}, {name}", printed, shown, *bends[worst])


def diverges(name: str, row: Mapping[int, SeedRuns]) -> PrintedLine:
    """Judges whether loss rises again: it ends above the least of all M, seed by seed."""
    last = max(row)
    means = {m: float(ends(row[m], "loss").mean()) for m in row}
    best = min(means, key=means.__getitem__)
    rise, around = spread(ends(row[last], "loss") - ends(row[best], "loss"))
    shown = f"least at M = {best}, {rise:+.3f} at M = {last}"
    return ahead_by(f"divergence, {name}", "loss rises again after M*", shown, rise, around)


def early_loss(runs: Mapping[str, SeedRuns], below: Sequence[str], plain: str) -> list[PrintedLine]:
    """Judges Fig. 2(a) for ϑ < 1: more loss than constant noise at first, and less the greater ϑ is."""
    early = {name: first(runs[name]) for name in (*below, plain)}
    shown = ", ".join(f"{name}: {value.mean():.3f}" for name, value in early.items())
    steps = [spread(early[one] - early[other]) for one, other in pairwise(below)]
    more = min(spread(early[name] - early[plain]) for name in below)
    quantity = f"mean loss of the first {EARLY} aggregations"
    return [
        ahead_by(f"{quantity}, ϑ < 1", "large: above ϑ = 1", shown, *more),
        ahead_by(f"{quantity}, ϑ = 0.9 → 0.95", "decreases", shown, *min(steps)),
    ]


def stability(runs: Mapping[str, SeedRuns]) -> PrintedLine:
    """Judges Fig. 2(b): what accuracy loses from its peak to the end, the more the greater ϑ is."""
    lost = {name: np.array([_lost(view.rounds) for view in found.views]) for name, found in runs.items()}
    shown = ", ".join(f"{name}: {100 * value.mean():.2f}" for name, value in lost.items())
    steps = [spread(after - before) for before, after in pairwise(lost.values())]
    worst = min(steps, key=lambda step: step[0] + SPREADS * step[1])
    quantity = "points of accuracy lost from the peak to the end"
    return ahead_by(quantity, "more stable under a smaller ϑ", shown, *worst)


def ends(found: SeedRuns, field: str) -> np.ndarray:
    """Returns the last value of a metric, seed by seed."""
    return np.array([float("nan") if (value := view.last(field)) is None else value for view in found.views])


def first(found: SeedRuns) -> np.ndarray:
    """Returns the mean loss of the early stage, seed by seed."""
    return np.array([np.mean([line["loss"] for line in view.rounds[:EARLY]]) for view in found.views])


def spread(values: np.ndarray) -> tuple[float, float]:
    """Returns mean and standard deviation over seeds."""
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _lost(rounds: Sequence[Mapping[str, float]]) -> float:
    path = [line["accuracy"] for line in rounds]
    return max(path) - path[-1]

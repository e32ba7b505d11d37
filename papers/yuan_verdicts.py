"""How the experiments of Yuan et al. (2023) are judged: optima over M, by ϑ and by ε."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from papers.experiment_runner import SeedRuns
from papers.printed_line import PrintedLine, ahead_by, all_ahead, joined, number, statement

DOUBT = "the learning rate is not stated, and decides after how many rounds noise outweighs what is still learnt"

BLUNT = {"loss": 0.01, "accuracy": 0.005}
"""Less than this counts as nothing in a curve's course: a hundredth of loss, half a point of accuracy."""
NEAR = {"loss": "they are less than 0.01 apart", "accuracy": "they are less than half a point apart"}


def best_count(name: str, printed: int, runs: Mapping[int, SeedRuns]) -> PrintedLine:
    """Judges the M of the least loss; one step of the grid counts as close, or the spread of the seeds' own M*."""
    best, grid = best_m(runs), sorted(runs)
    near = max(abs(b - a) for a, b in pairwise(grid) if printed in (a, b))
    own = [min(runs, key=lambda m: ends[m]) for ends in _by_seed(runs)]
    spread = float(np.std(own, ddof=1)) if len(own) > 1 else 0.0
    tried = f"M tried: {', '.join(map(str, grid))}"
    line = number(f"M*, {name}", printed, best, 0, near, tried, spread)
    return replace(line, why=joined(line.why, DOUBT)) if line.status == "differs" else line


def _by_seed(runs: Mapping[int, SeedRuns]) -> list[dict[int, float]]:
    """Returns the last losses by M, seed by seed."""
    seeds = range(min(len(found.views) for found in runs.values()))
    return [{m: float(found.views[seed].last("loss") or math.inf) for m, found in runs.items()} for seed in seeds]


def at_best(row: Mapping[int, SeedRuns], field: str = "loss") -> SeedRuns:
    """Returns the runs at the M of the least mean loss, or of the best mean accuracy."""
    return row[best_m(row, field)]


def order(
    quantity: str, printed: str, shown: str, groups: Sequence[Sequence[SeedRuns]], field: str = "loss"
) -> PrintedLine:
    """Judges that the best of each group is better than the best of the next, over the seeds.

    Args:
        groups: runs from best to worst, as it is printed.
    """
    sign = -1 if field == "loss" else 1
    best = [max(group, key=lambda found: sign * found.last(field)[0]) for group in groups]
    steps = [(b, a) if field == "loss" else (a, b) for a, b in pairwise(best)]
    return all_ahead(quantity, printed, shown, [mine.lead(other, field) for mine, other in steps])


def least_loss(row: Mapping[int, SeedRuns]) -> float:
    """Returns the least loss over M."""
    return min(found.last("loss")[0] for found in row.values())


def least_of(runs: Mapping[str, Mapping[int, SeedRuns]]) -> str:
    """Returns whose least loss over M is the least."""
    return min(runs, key=lambda name: least_loss(runs[name]))


def less_loss(runs: Mapping[str, Mapping[int, SeedRuns]], levels: Sequence[float]) -> PrintedLine:
    """Judges whether loss falls as ε rises."""
    falling = [least_loss(runs[f"ε = {e:g}"]) for e in levels]
    told = ", ".join(f"{e:g}: {x:.3f}" for e, x in zip(levels, falling, strict=True))
    return statement("least loss as ε rises", "decreases", told, falling == sorted(falling, reverse=True))


def near_silence(runs: Mapping[str, Mapping[int, SeedRuns]], levels: Sequence[float], from_: float) -> PrintedLine:
    """Judges whether loss approaches that without noise, from some ε on."""
    gap = max(least_loss(runs[f"ε = {e:g}"]) for e in levels if e >= from_) - least_loss(runs["no noise"])
    told = "approaches no noise (0.1 counts as that)"
    return statement(f"ε ≥ {from_:g}", told, f"{gap:+.3f} of loss", gap < 0.1)


def later_optima(runs: Mapping[str, Mapping[int, SeedRuns]], levels: Sequence[float]) -> PrintedLine:
    """Judges whether M* grows with ε."""
    best = [best_m(runs[f"ε = {e:g}"]) for e in levels]
    return statement("M* as ε rises", "in general increases", ", ".join(map(str, best)), best[-1] >= best[0])


def best_m(row: Mapping[int, SeedRuns], field: str = "loss") -> int:
    """Returns the M of the least loss, or of the best accuracy."""
    sign = 1 if field == "loss" else -1
    return min(row, key=lambda m: sign * row[m].last(field)[0])


def behind(laplace: SeedRuns, others: Sequence[SeedRuns]) -> PrintedLine:
    """Judges whether the Laplace mechanism is worse than all others, at M = 30."""
    worst = min(others, key=lambda found: found.last()[0])
    shown = f"{100 * laplace.last()[0]:.1f} % against {100 * worst.last()[0]:.1f} % and more"
    return ahead_by("Laplace, M = 30", "worse than all of them", shown, *worst.lead(laplace))


def earlier(what: str, found: Sequence[int]) -> PrintedLine:
    """Judges whether the best aggregation comes sooner as ϑ rises."""
    quantity, shown = f"aggregation of the {what}, ϑ = 0.9 … 1.1", ", ".join(map(str, found))
    return statement(quantity, "generally declines as ϑ rises", shown, found[-1] < found[0] and found[-1] == min(found))


def accuracies(runs: Mapping[str, Mapping[int, SeedRuns]]) -> list[PrintedLine]:
    """Judges what is said of Fig. 3(b): where accuracy is best, what a greater M costs, and which ϑ is ahead."""
    where = {name: (best_m(row), best_m(row, "accuracy")) for name, row in runs.items()}
    best = {name: row[where[name][1]].last()[0] for name, row in runs.items()}
    cost = {name: best[name] - row[max(row)].last()[0] for name, row in runs.items()}
    shown = ", ".join(f"{name}: {100 * value:.1f} %" for name, value in best.items())
    told = ", ".join(f"{name}: {100 * value:.1f} points" for name, value in cost.items())
    costs = (
        min(value for name, value in cost.items() if name != "ϑ = 1") > 0.005
        and max(cost, key=cost.__getitem__) == "ϑ = 1.1"
    )
    return [
        statement(
            "M of the best accuracy",
            "that of the least loss",
            ", ".join(f"{name}: {accurate} ({least})" for name, (least, accurate) in where.items()),
            all(least == accurate for least, accurate in where.values()),
        ),
        statement(
            "accuracy lost at the greatest M",
            "some for ϑ ≠ 1 (0.5 points count as that), most for ϑ = 1.1",
            told,
            costs,
        ),
        order("best accuracy of all", "ϑ ≥ 1.05", shown, _above(runs, "accuracy"), "accuracy"),
    ]


def _above(runs: Mapping[str, Mapping[int, SeedRuns]], field: str) -> list[list[SeedRuns]]:
    """Returns the runs at their best M: those of ϑ > 1, and all others."""
    loud = ("ϑ = 1.05", "ϑ = 1.1")
    return [
        [at_best(runs[name], field) for name in loud],
        [at_best(row, field) for name, row in runs.items() if name not in loud],
    ]


def compared(runs: Mapping[str, Mapping[int, SeedRuns]]) -> list[PrintedLine]:
    """Judges what is said of the least losses of Fig. 3(a): ϑ ≥ 1.05 is the best, and both neighbours of 1 beat it."""
    shown = ", ".join(f"{name}: {least_loss(row):.3f}" for name, row in runs.items())
    plain = at_best(runs["ϑ = 1"])
    leads = [plain.lead(at_best(runs[name]), "loss") for name in ("ϑ = 0.95", "ϑ = 1.05")]
    return [
        order("least loss of all", "ϑ ≥ 1.05", shown, _above(runs, "loss")),
        all_ahead("ϑ = 0.95 and ϑ = 1.05", "both below ϑ = 1", shown, leads),
    ]

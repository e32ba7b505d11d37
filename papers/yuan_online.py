"""Yuan et al. (2023), §V-B-3: noise that is refined online whenever the loss stops falling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from papers.experiment import PIXELS, ExperimentResult
from papers.experiment_runner import ExperimentRunner, SeedRuns
from papers.printed_line import PrintedLine, ahead_by, number, statement
from papers.yuan import RATE, THETAS, experiment, geometric, pair
from papers.yuan_verdicts import DOUBT
from sordino.charts import Axis, Chart, Series

PLANNED = 30
"""M: the aggregations that are planned at first."""
ONLINE = (
    "How much data the aggregator has to watch the loss on is not stated: a tenth of the images, declared public, so "
    "that a user holds 540."
)
CURVES = "The text speaks of “all four curves” and names 0.9, 1.05 and 1.1 of their ϑ: all five of Table II."


def fig5(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 5: M′ under online refinement."""
    lines: list[PrintedLine] = []
    series = []
    for place, (name, found) in enumerate(_refined(runner).items()):
        plans = [[line["knobs"].get("last_round", PLANNED) for line in view.rounds] for view in found.views]
        lines.append(shrinks(name, plans))
        shared = min(len(plan) for plan in plans)
        mean = [float(value) for value in np.mean([plan[:shared] for plan in plans], axis=0)]
        dashed = name.startswith("α_d = 0.9")
        series.append(Series(name, list(range(1, shared + 1)), mean, "step", place % len(THETAS), dashed))
    note = "The last aggregation that is planned, by aggregation: mean over seeds, as far as all of them played."
    chart = Chart("yuan-fig5", "Yuan et al., Fig. 5: M′", note, Axis("m"), Axis("M′"), tuple(series), wide=True)
    return ExperimentResult(tuple(lines), (chart,))


def shrinks(name: str, plans: Sequence[Sequence[float]]) -> PrintedLine:
    """Judges whether M′ only ever falls, and ends below what was planned at first, with every seed."""
    falls = [list(plan) == sorted(plan, reverse=True) and plan[-1] < PLANNED for plan in plans]
    never = all(set(plan) == {PLANNED} for plan in plans)
    why = f"the loss that is watched never stops falling, so nothing is refined; {DOUBT}" if never else ""
    end = float(np.mean([plan[-1] for plan in plans]))
    shown = f"{PLANNED} → {end:.1f}, falls in {sum(falls)} of {len(falls)} seeds"
    return statement(name, "M′ decreases over m", shown, all(falls), why)


def fig6(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 6: loss and accuracy under online refinement."""
    runs = _refined(runner)
    fixed = runner.play({f"{t:g}": [*geometric(t, PLANNED), "data.public_fraction=0.1"] for t in THETAS})
    lines: list[PrintedLine] = []
    for shrink, printed in ((0.8, 1.05), (0.9, 1.1)):
        end = {t: runs[f"α_d = {shrink:g}, ϑ = {t:g}"].last("loss")[0] for t in THETAS}
        best = min(end, key=lambda t: end[t])
        lines.append(number(f"best ϑ, α_d = {shrink:g}", printed, best, 2))
        for theta in (1.0, 1.05, 1.1):
            plain, found = fixed[f"{theta:g}"], runs[f"α_d = {shrink:g}, ϑ = {theta:g}"]
            shown = f"{plain.last('loss')[0]:.3f} → {end[theta]:.3f}"
            quantity = f"refinement, α_d = {shrink:g}, ϑ = {theta:g}"
            lines.append(ahead_by(quantity, "improves", shown, *plain.lead(found, "loss")))
    played = {t: runs[f"α_d = 0.8, ϑ = {t:g}"].rounds() for t in THETAS}
    shown = ", ".join(f"{t:g}: {n:.0f}" for t, n in played.items())
    first = played[0.9] < min(n for t, n in played.items() if t != 0.9)
    lines.append(statement("ϑ = 0.9", "terminates earlier than the others", shown, first))
    return ExperimentResult(tuple(lines), pair("yuan-fig6", "Yuan et al., Fig. 6", runs))


def _refined(runner: ExperimentRunner) -> dict[str, SeedRuns]:
    online = ["data.public_fraction=0.1", "mechanism.refine=true"]
    plans = {
        f"α_d = {shrink:g}, ϑ = {theta:g}": [*geometric(theta, PLANNED), *online, f"mechanism.shrink={shrink}"]
        for shrink in (0.8, 0.9)
        for theta in THETAS
    }
    return runner.play(plans)


EXPERIMENTS = (
    experiment("yuan-fig5", "Fig. 5, §V-B-3", "M′ under refinement", fig5, RATE, PIXELS, ONLINE, CURVES),
    experiment("yuan-fig6", "Fig. 6, §V-B-3", "Learning under refinement", fig6, RATE, PIXELS, ONLINE, CURVES),
)

"""Pictures of Xue et al. (2023): δ spent, accuracy by round in both readings, and parameters as boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from papers.charts import beside
from papers.experiment_runner import BY_CHANCE, SeedRuns, printed_rules
from papers.xue_scene import DELTA, NAMES, READINGS
from sordino.account.accountants.published import xue_delta, xue_participations
from sordino.charts import Axis, Boxes, Chart, Series


def spending(scenes: Sequence[tuple[float, float]]) -> Chart:
    """Returns δ by upload, for some ε and σ0."""
    series = []
    for color, (budget, sigma0) in enumerate(scenes):
        uploads = list(range(1, xue_participations(budget, sigma0, DELTA) + 1))
        spent = [xue_delta(budget, n, sigma0, DELTA) for n in uploads]
        series.append(Series(f"ε = {budget:g}, σ0 = {sigma0:g}", uploads, spent, "line", color))
    note = "δ of Eq. (12) by upload, until the next one would exceed δ* = 1e-5."
    return Chart(
        "xue-fig3-delta", "Xue et al., Fig. 3: δ spent", note, Axis("uploads", log=True), Axis("δ"), tuple(series)
    )


def curves(key: str, title: str, runs: Mapping[str, Mapping[str, SeedRuns]], printed: Mapping[str, float]) -> Chart:
    """Returns accuracy by round: a colour for each optimiser, dashes for the noise over the batch, dots for none."""
    color = {optimizer: place for place, optimizer in enumerate(NAMES)}
    series = [
        _curve(found, f"{NAMES[optimizer]}, {name}", color[optimizer], name)
        for optimizer, readings in runs.items()
        for name, found in readings.items()
    ]
    once = {value: color[optimizer] for optimizer, value in printed.items()}
    rules = printed_rules({place: value for value, place in once.items()})
    axis = Axis("test accuracy", percent=True, range=(0.0, 1.0))
    note = "Ours, in both readings of the noise; dotted lines follow from what is printed."
    return Chart(key, title, note, Axis("round"), axis, tuple(series), (*rules, BY_CHANCE), wide=True)


def ends(key: str, title: str, runs: Mapping[str, Mapping[str, SeedRuns]], printed: Mapping[str, float]) -> Chart:
    """Returns the last accuracies as bars, for runs that are too short for curves."""
    columns: dict[str, list[float]] = {"printed": list(printed.values())} if printed else {}
    columns |= {f"ours, {name}": [readings[name].last()[0] for readings in runs.values()] for name in READINGS}
    axis = Axis("test accuracy", percent=True, range=(0.0, 1.0))
    return beside(key, title, "optimiser", [NAMES[optimizer] for optimizer in runs], columns, axis, (BY_CHANCE,))


def _curve(found: SeedRuns, label: str, color: int, name: str) -> Series:
    line = found.series(label, color, dashed=name == READINGS[1])
    return line if name in READINGS else replace(line, kind="both")


def boxes(key: str, title: str, when: np.ndarray, before: np.ndarray, after: np.ndarray) -> Chart:
    """Returns the parameters of a client before and after truncation, in every tenth round, or in all of few."""
    chosen = [place for place in range(len(when)) if len(when) <= 10 or when[place] % 10 == 0]
    names = [str(int(when[place])) for place in chosen]

    def box(label: str, rows: np.ndarray, color: int) -> Boxes:
        fives = [tuple(float(x) for x in rows[place][:5]) for place in chosen]
        return Boxes(label, names, fives, color)  # type: ignore[arg-type]

    pair = (box("original value", before, 0), box("estimation", after, 1))
    note = "Parameters of one client: least, quartiles and greatest, before and after truncation."
    return Chart(key, title, note, Axis("round", categories=True), Axis("parameter"), pair)

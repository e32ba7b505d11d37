"""Who took part, who was lost, and what the clients hold."""

from __future__ import annotations

import numpy as np

from sordino.charts import Axis, Chart, Heat, Series
from sordino.report.view import Labels, RunView


def cohorts(view: RunView) -> list[Chart]:
    """Returns how many clients were asked, and how many of them were counted."""
    lines = view.played
    if view.public:
        return []
    rounds = [line["round"] for line in lines]
    asked = Series("asked", rounds, [line["cohort"] for line in lines], "step", 7)
    counted = Series("counted", rounds, [line["survivors"] for line in lines], "step", 2)
    note = "Clients that were asked, and those whose contribution arrived. Who vanished is in between."
    return [Chart("cohort", "Cohort and dropouts by round", note, Axis("round"), Axis("clients"), (asked, counted))]


def label_map(view: RunView) -> list[Chart]:
    """Returns which client holds which labels; counts of clients by label when each of them holds one record."""
    labels = view.labels
    if labels is None:
        return []
    if int(labels.counts.sum(1).max()) == 1:
        return [_one_each(labels)]
    names = () if view.federation is None else view.federation.names
    shares = labels.counts / np.maximum(1, labels.counts.sum(1, keepdims=True))
    order = np.lexsort((-shares.max(1), shares.argmax(1)))
    heat = Heat(
        [str(label) for label in range(labels.counts.shape[1])],
        [names[client] if names else f"client {client}" for client in labels.clients[order]],
        [[round(float(value), 4) for value in row] for row in shares[order]],
        "share",
    )
    shown = (
        f"{len(labels.clients)} of {labels.population:,} clients" if _some(labels) else f"{labels.population} clients"
    )
    note = (
        f"Share of each label in what a client holds ({shown}, ordered by their main label). Private: simulation only."
    )
    return [
        Chart("labels", "Label map of the clients", note, Axis("label", categories=True), Axis(""), (heat,), wide=True)
    ]


def _one_each(labels: Labels) -> Chart:
    names = [str(label) for label in range(labels.counts.shape[1])]
    series = Series("clients", names, [int(n) for n in labels.counts.sum(0)], "bars", 6)
    shown = f"{len(labels.clients)} of {labels.population:,} clients" if _some(labels) else "all clients"
    note = f"Every client holds a single record; labels of {shown}. Private: simulation only."
    return Chart("labels", "Labels of the clients", note, Axis("label", categories=True), Axis("clients"), (series,))


def _some(labels: Labels) -> bool:
    return len(labels.clients) < labels.population

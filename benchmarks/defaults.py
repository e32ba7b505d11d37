"""Recipes that set data, features, mechanism and budget alone: `python -m benchmarks.utility --defaults`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import mean, stdev
from typing import Any

LABEL = "nothing set but the features"
"""What measured rows of such a recipe are called; their recipe is the tuned one that they stand beside."""
_SCATTERING = ("mechanism.name=dp_sgd", "data.features=scattering")
TASKS: dict[str, tuple[str, ...]] = {
    "digits-eps-0.5": (*_SCATTERING, "data.name=digits", "budget.epsilon=0.5"),
    "digits-eps-1": (*_SCATTERING, "data.name=digits", "budget.epsilon=1"),
    "mnist-eps-0.3": (*_SCATTERING, "data.name=mnist", "partition.clients=30", "budget.epsilon=0.3"),
    "mnist-eps-1": (*_SCATTERING, "data.name=mnist", "partition.clients=30", "budget.epsilon=1"),
    "mnist-eps-3": (*_SCATTERING, "data.name=mnist", "partition.clients=30", "budget.epsilon=3"),
    "fashion-mnist-eps-1": (*_SCATTERING, "data.name=fashion-mnist", "partition.clients=30", "budget.epsilon=1"),
    "mnist-writers-eps-8": (
        "mechanism.name=dropout_robust",
        "data.features=scattering",
        "data.name=mnist-writers",
        "partition.kind=by_key",
        "budget.epsilon=8",
    ),
    "adult-eps-1": (
        "mechanism.name=dp_sgd",
        "data.name=adult",
        "data.features=random",
        "partition.clients=60",
        "budget.epsilon=1",
    ),
}
"""Everything that such a recipe sets, by the tuned recipe for the same task."""


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns the table of what was measured: each task beside its tuned recipe, over the seeds that both have."""
    lines = [
        "| everything that is set | accuracy (%) | tuned recipe | difference | path | rounds | opening | seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    found = list(rows)
    for name, settings in TASKS.items():
        mine = {row["seed"]: row for row in found if (row["recipe"], row["label"]) == (name, LABEL)}
        tuned = {row["seed"]: row["accuracy"] for row in found if (row["recipe"], row["label"]) == (name, "")}
        if mine:
            both = sorted(mine.keys() & tuned.keys())
            ours, theirs = [mine[seed]["accuracy"] for seed in both], [tuned[seed] for seed in both]
            one = next(iter(mine.values()))
            told = " ".join(f"`{setting}`" for setting in settings)
            lines.append(
                f"| {told} | **{_spread(ours)}** | {_spread(theirs)} | {mean(ours) - mean(theirs):+.2f} | "
                f"{one['path']:g} | {one['rounds']} | {one['opening']} | {len(both)} |"
            )
    return "\n".join(lines)


def _spread(accuracies: list[float]) -> str:
    return f"{mean(accuracies):.2f}" + (f" ± {stdev(accuracies):.2f}" if len(accuracies) > 1 else "")

"""A federation over Flower messages gives the model of a simulation: to the bit where messages are integers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from federation.village import played_and_made, simulated, village
from sordino.federation.deadlines import Deadlines
from sordino.runs.folder import RunFolder

SMALL = ("partition.clients=7", "run.rounds=3", "budget.epsilon=20", "aggregate.tolerance=0.3")


@pytest.mark.parametrize(
    "mechanism",
    (
        "dropout_robust",
        "dp_sgd",
        "geometric mechanism.trust=distributed",
        "component_adaptive mechanism.trust=distributed",
        "dropout_robust run.rounds=1 opening.feature_mean=0.3",
        "dp_sgd run.rounds=1 opening.feature_mean=0.3 opening.channel_moment=0.4",
    ),
)
def test_seeded_nodes_over_flower_give_the_simulations_model_to_the_bit(mechanism: str, tmp_path: Path) -> None:
    outcome, made = played_and_made(tmp_path, mechanism, *SMALL)
    last = made.deployment().play()
    assert last.here.round_ == made.recipe.run.rounds
    assert torch.equal(last.here.weights, outcome.weights)


def test_shards_over_flower_give_the_simulations_model_to_the_bit(tmp_path: Path) -> None:
    """Each shard is a secure sum of its own; a node that is lost is a dropout of its shard alone."""
    small = ("partition.clients=33", "run.rounds=1", "budget.epsilon=20", "aggregate.tolerance=0.2")
    outcome, made = played_and_made(tmp_path, "dropout_robust aggregate.shards=3", *small)
    last = made.deployment(deadlines=Deadlines(60.0, 60.0, 60.0)).play()
    assert torch.equal(last.here.weights, outcome.weights)

    again = village(tmp_path / "again", *simulated(*small, "mechanism.name=dropout_robust", "aggregate.shards=3"))
    again.fates = lambda node, kind: "gone" if (node, kind) == (4, "query.mask") else "answer"
    again.deployment(deadlines=Deadlines(60.0, 60.0, 60.0)).play()
    (line,) = RunFolder(again.folder.run_dir).metrics()
    assert (line["cohort"], line["survivors"]) == (33, 32)

"""A-DPFL's refusal: attacks touch the hostile alone, and a verdict says who is refused and what that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from papers.a_dpfl_refusal import ATTACKS, RULES, SCENE, UNSEEN, Malicious, judged, poisoned, relabelled
from papers.experiment_runner import recipe_of

from sordino.runs.setup import load
from sordino.stages import Update

RECIPE = recipe_of([*SCENE, "run.rounds=1"])


@pytest.mark.parametrize("attack", ATTACKS)
def test_labels_are_changed_of_the_hostile_alone(attack: str) -> None:
    before = load(RECIPE)
    after = relabelled(before, 20, attack)
    _, hostile = before.partition.indices(np.arange(20))
    expected = before.train_y.clone()
    if attack == "labels are flipped":
        expected[hostile] = 9 - expected[hostile]
    elif attack == "all labels are 0":
        expected[hostile] = 0
    assert torch.equal(after.train_y, expected)
    assert torch.equal(after.train_x, before.train_x)


def test_messages_are_multiplied_of_the_hostile_alone() -> None:
    class Honest:
        def train(self, *_: object) -> Update:
            return Update(np.array([1, 3, 5]), torch.ones(3, 2), np.ones(3, np.int64))

    rows = Malicious(cast(Any, Honest()), 4, -5.0).train(*cast(Any, (None, None, None))).rows
    assert rows.tolist() == [[-5, -5], [-5, -5], [1, 1]]


def test_a_poisoned_run_is_measured_again_where_it_was_cut_off(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    (place / "recipe.toml").write_text("half")
    found = poisoned(RECIPE, place, (3,))
    assert found == poisoned(RECIPE, place, (3,)) and 0 <= found["hostile"] < found["honest"] < 1
    assert poisoned(RECIPE, place, (0,))["accuracy"] > found["accuracy"]


@pytest.mark.parametrize(
    ("hostile", "honest", "best", "statuses"),
    [
        (1.0, 0.0, 0.8, ["equal", "equal", "equal"]),
        (1.0, 0.2, 0.8, ["differs", "equal", "equal"]),
        (0.1, 0.0, 0.2, ["differs", "equal", "differs"]),
    ],
)
def test_refusal_is_judged_by_who_is_refused_and_by_accuracy(
    hostile: float, honest: float, best: float, statuses: list[str]
) -> None:
    ends = dict(zip(RULES, (0.5, 0.6, best), strict=True))
    shares = {"hostile": hostile, "honest": honest}
    lines = judged("labels are flipped", {name: [{"accuracy": end, **shares}] * 2 for name, end in ends.items()})
    assert [line.status for line in lines] == statuses
    assert (lines[0].why == UNSEEN) == (statuses[0] == "differs")


def test_a_rule_under_which_nothing_is_learnt_protects_nothing() -> None:
    ends = dict(zip(RULES, (0.098, 0.099, 0.121), strict=True))
    found = {name: [{"accuracy": end, "hostile": 1.0, "honest": 0.0}] * 2 for name, end in ends.items()}
    assert [line.status for line in judged(ATTACKS[3], found)] == ["equal", "differs", "differs"]

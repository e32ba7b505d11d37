from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sordino.reproduce.membership import Victim, _attack, success

SETTINGS = ["mechanism.name=fedavg", "partition.clients=4", "model.name=mlp", "train.learning_rate=0.5"]


def imagined(seed: int, surer: float) -> Victim:
    """A model that is surer of its own class by a factor e^surer on the records that it was trained on."""
    draw = np.random.default_rng(seed)
    member, labels = np.arange(400) < 200, draw.integers(0, 3, 400)
    logits = draw.normal(size=(400, 3))
    logits[np.arange(400), labels] += 1 + surer * member
    return Victim(np.exp(logits) / np.exp(logits).sum(1, keepdims=True), member, labels)


def test_an_attack_finds_members_where_they_show_and_nobody_where_they_do_not() -> None:
    assert _attack([imagined(seed, 8.0) for seed in range(4)], imagined(9, 8.0)) > 0.95
    assert 0.4 < _attack([imagined(seed, 0.0) for seed in range(4)], imagined(9, 0.0)) < 0.6


@pytest.mark.parametrize("rounds", [2])
def test_models_are_trained_on_halves_and_attacked_in_turn(tmp_path: Path, rounds: int) -> None:
    rate, _ = success([*SETTINGS, "data.name=digits", f"run.rounds={rounds}"], 3, tmp_path)
    assert 0.3 < rate < 0.75
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1", "seed-2"]

"""The game of shared streams: two runs with one seed on one ledger, whose difference would be free of noise.

The second run trains with another learning rate. If both drew the same noise, it would cancel in the difference of the
two models, and what is left would be the clients' updates alone; the ledger adds the two runs up as independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from sordino.audit.small_runs import aside, small_federation, small_run

SETTINGS = (
    "mechanism.name=dp_fedavg",
    "mechanism.noise_multiplier=20",
    "mechanism.clip_norm=1",
    "budget.epsilon=none",
    "run.rounds=1",
    "train.steps=1",
)
RATES = (0.1, 0.9)
"""Learning rates of the two runs; an update stays below the clip norm at both."""


def play(present: bool, seed: int) -> float:
    """Returns the difference of two models along the target's update."""
    with aside() as place:
        models = [_model(place, present, seed, rate) for rate in RATES]
        return float((models[1] - models[0])[0])


def _model(place: Path, present: bool, seed: int, rate: float) -> Tensor:
    settings = (*SETTINGS, f"train.learning_rate={rate}", f"ledger.path={place}/shared.db")
    return small_run(place / f"run-{rate}", settings, seed, small_federation(present)).weights


def learn(without: Sequence[float], with_: Sequence[float]) -> Callable[[float], float]:
    """Returns how much nearer a difference is to the pilot's middle with the target than to that without it."""
    middle = [float(np.median(world)) for world in (without, with_)]
    return lambda seen: abs(seen - middle[0]) - abs(seen - middle[1])

"""How every client of a round trains: public settings, the same for all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from sordino.errors import RecipeError

OptimizerName = Literal["sgd", "momentum", "adam", "rmsprop"]


@dataclass(frozen=True)
class LocalTraining:
    """Settings of local training.

    Attributes:
        optimizer: which rule turns gradients into steps.
        learning_rate: step size.
        momentum: decay of the velocity (`momentum` only).
        betas: decays of the first and second moments (`adam` only).
        decay: decay of the second moment (`rmsprop` only; torch calls it alpha).
        damping: added to the root of the second moment (`adam`, `rmsprop`; torch calls it eps).
        weight_decay: λ of a regulariser λ/2·‖w‖² beside the loss, in every local step.
        batch_size: records in a step; None means all records of the client.
        steps: number of local steps, cycling through the client's records; exclusive with `epochs`.
        epochs: number of passes over the client's records; exclusive with `steps`.

    **Edge cases**: a client with fewer records than `batch_size` uses all it has; the last, shorter batch of an epoch
    is kept. Impossible values raise `RecipeError`.
    """

    optimizer: OptimizerName = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.999)
    decay: float = 0.99
    damping: float = 1e-8
    weight_decay: float = 0.0
    batch_size: int | None = None
    steps: int | None = None
    epochs: int | None = 1

    def __post_init__(self) -> None:
        if self.optimizer not in ("sgd", "momentum", "adam", "rmsprop"):
            raise RecipeError(f"train.optimizer is {self.optimizer!r}: choose sgd, momentum, adam or rmsprop.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise RecipeError(f"train.learning_rate is {self.learning_rate}: give a positive number.")
        if (self.steps is None) == (self.epochs is None):
            raise RecipeError(
                "train.steps and train.epochs exclude each other: set exactly one and leave the other out."
            )
        for name in ("batch_size", "steps", "epochs"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise RecipeError(f"train.{name} is {count}: give a whole number of at least 1.")
        decays = {"momentum": self.momentum, "decay": self.decay, "betas[0]": self.betas[0], "betas[1]": self.betas[1]}
        for name, value in decays.items():
            if not 0 <= value < 1:
                raise RecipeError(f"train.{name} is {value}: give a number of at least 0 and below 1.")
        if not (math.isfinite(self.damping) and self.damping > 0):
            raise RecipeError(f"train.damping is {self.damping}: give a positive number.")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise RecipeError(f"train.weight_decay is {self.weight_decay}: give 0 or a positive number.")

    def stretched(self, factor: float) -> LocalTraining:
        """Returns the settings with so many times the steps (or passes): the nearest whole number, at least 1."""
        if self.steps is not None:
            return replace(self, steps=max(1, round(self.steps * factor)))
        return replace(self, epochs=max(1, round((self.epochs or 1) * factor)))

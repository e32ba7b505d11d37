"""How the server applies a released mean update to the global model. Post-processing, all of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.mechanism import Knobs


@dataclass(frozen=True)
class ServerStep:
    """w ← w + learning_rate · m, with m ← momentum · m + mean."""

    learning_rate: float = 1.0
    momentum: float = 0.0

    def apply(self, weights: Tensor, mean: Tensor, knobs: Knobs) -> tuple[Tensor, Knobs]:
        """Returns the new global model, and the knobs with the momentum that goes with it."""
        if self.momentum == 0:
            return weights + self.learning_rate * mean, knobs
        velocity = self.momentum * knobs.get("velocity", torch.zeros_like(mean)) + mean
        return weights + self.learning_rate * velocity, {**knobs, "velocity": velocity}

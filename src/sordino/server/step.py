"""How the server applies a released mean update to the global model. Post-processing, all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

ServerState = Mapping[str, Tensor]
"""What the server remembers between rounds besides the model, by name."""


@dataclass(frozen=True)
class ServerStep:
    """w ← (1 − weight_decay) · w + learning_rate · m, with m ← momentum · m + mean."""

    learning_rate: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    """Share of the model that a round takes away: no clip stands between, so that noise is forgotten at that rate."""

    def apply(self, weights: Tensor, mean: Tensor, state: ServerState) -> tuple[Tensor, ServerState]:
        """Returns the new global model, and the momentum that goes with it."""
        mean = mean.to(weights.dtype)
        weights = weights * (1 - self.weight_decay) if self.weight_decay else weights
        if self.momentum == 0:
            return weights + self.learning_rate * mean, state
        velocity = self.momentum * state.get("velocity", torch.zeros_like(mean)) + mean
        return weights + self.learning_rate * velocity, {**state, "velocity": velocity}

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
    """w ← (1 − weight_decay)·w + learning_rate·m, with m ← momentum·m + mean; what is published may be an average.

    **Formal guarantees**: a function of released values alone, so it costs nothing, whatever the settings.
    **Edge cases**: without `average_from` (or before that round) the model that is published is the last one.
    **Reference**: Polyak and Juditsky (1992) for the average of the last iterates.
    """

    learning_rate: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    """Share of the model that a round takes away: no clip stands between, so that noise is forgotten at that rate."""
    average_from: int | None = None
    """The round from which on models are averaged into the one that is published; None publishes the last one."""

    def apply(self, weights: Tensor, mean: Tensor, state: ServerState, round_: int = 0) -> tuple[Tensor, ServerState]:
        """Returns the new global model, and what the server remembers beside it."""
        step = mean.to(weights.dtype)
        if self.momentum:
            step = self.momentum * state.get("velocity", torch.zeros_like(step)) + step
            state = {**state, "velocity": step}
        weights = weights * (1 - self.weight_decay) if self.weight_decay else weights
        weights = weights + self.learning_rate * step
        if self.average_from is not None and round_ >= self.average_from:
            total = state.get("models", torch.zeros_like(weights, dtype=torch.float64)) + weights
            state = {**state, "models": total, "averaged": state.get("averaged", torch.zeros(())) + 1}
        return weights, state

    def published(self, weights: Tensor, state: ServerState) -> Tensor:
        """Returns the model to publish when training ends here."""
        return (state["models"] / state["averaged"]).to(weights.dtype) if "models" in state else weights


def step_of_path(path: float, rounds: int, clip_norm: float) -> float:
    """Returns the step with which so many rounds of clipped steps make a path of at most this length.

    With features of norm 1 this is what decides: noise moves a score by about path/(μ·n), whatever rounds and clip norm
    are by themselves, and signal grows with the path. So a path can be chosen from public numbers (`usual_path`).
    """
    return path / (rounds * clip_norm)


def usual_path(separation: float, records: float) -> float:
    """Returns a path for records of norm 1, from μ of the budget and their expected number: 14,000·(μn/16,000)^0.65.

    A curve through settings that were good on Fashion-MNIST and MNIST (docs/utility.md); no theory gives the exponent.
    """
    return float(14_000 * (separation * records / 16_000) ** 0.65)

"""The optimisers as pure functions on rows: `init(rows) → state`, `step(state, gradients) → (delta, state)`.

Row k is client k: every operation is element-wise, so a client's result does not depend on who else is in the matrix.

**Formal guarantees**: equal to `torch.optim` run client by client, up to rounding. **Edge cases**: `step` never changes
its arguments, so a state may be kept and stepped again (which `component_adaptive` does to predict a step).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sordino.train.settings import LocalTraining

State = Mapping[str, Tensor]
"""Tensors by name, each with one row a client."""


class Optimizer(Protocol):
    """What every optimiser offers."""

    def init(self, rows: Tensor) -> State:
        """Returns the state before the first step."""

    def step(self, state: State, gradients: Tensor) -> tuple[Tensor, State]:
        """Returns what to add to the weights, and the state after the step."""


@dataclass(frozen=True)
class Sgd:
    """w ← w − η·g."""

    learning_rate: float

    def init(self, rows: Tensor) -> State:
        return {}

    def step(self, state: State, gradients: Tensor) -> tuple[Tensor, State]:
        return gradients * -self.learning_rate, state


@dataclass(frozen=True)
class Momentum:
    """v ← γ·v + g, then w ← w − η·v."""

    learning_rate: float
    momentum: float

    def init(self, rows: Tensor) -> State:
        return {"velocity": torch.zeros_like(rows)}

    def step(self, state: State, gradients: Tensor) -> tuple[Tensor, State]:
        velocity = torch.add(gradients, state["velocity"], alpha=self.momentum)
        return velocity * -self.learning_rate, {"velocity": velocity}


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba (2015), with bias correction by each client's own number of steps."""

    learning_rate: float
    betas: tuple[float, float]
    damping: float

    def init(self, rows: Tensor) -> State:
        return {
            "first": torch.zeros_like(rows),
            "second": torch.zeros_like(rows),
            # float64: 1 − β² loses digits in float32, which torch avoids by using Python floats
            "steps": torch.zeros(len(rows), 1, dtype=torch.float64),
        }

    def step(self, state: State, gradients: Tensor) -> tuple[Tensor, State]:
        beta1, beta2 = self.betas
        steps = state["steps"] + 1
        first = torch.lerp(state["first"], gradients, 1 - beta1)
        second = (state["second"] * beta2).addcmul_(gradients, gradients, value=1 - beta2)
        rate = (self.learning_rate / (1 - beta1**steps)).to(gradients.dtype)
        shrink = (1 - beta2**steps).rsqrt().to(gradients.dtype)
        root = second.sqrt().mul_(shrink).add_(self.damping)
        return (first / root).mul_(-rate), {"first": first, "second": second, "steps": steps}


@dataclass(frozen=True)
class RmsProp:
    """s ← α·s + (1−α)·g², then w ← w − η·g/(√s + damping)."""

    learning_rate: float
    decay: float
    damping: float

    def init(self, rows: Tensor) -> State:
        return {"second": torch.zeros_like(rows)}

    def step(self, state: State, gradients: Tensor) -> tuple[Tensor, State]:
        second = (state["second"] * self.decay).addcmul_(gradients, gradients, value=1 - self.decay)
        root = second.sqrt().add_(self.damping)
        return (gradients / root).mul_(-self.learning_rate), {"second": second}


def optimizer(settings: LocalTraining) -> Optimizer:
    """Returns the optimiser that the settings name."""
    rate = settings.learning_rate
    choices: dict[str, Optimizer] = {
        "sgd": Sgd(rate),
        "momentum": Momentum(rate, settings.momentum),
        "adam": Adam(rate, settings.betas, settings.damping),
        "rmsprop": RmsProp(rate, settings.decay, settings.damping),
    }
    return choices[settings.optimizer]

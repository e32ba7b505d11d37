"""The optimisers as pure functions on rows: `init(rows) → state`, `step(state, gradients) → (delta, state)`.

Row k is client k: every operation is element-wise, so a client's result does not depend on who else is in the matrix.

**Formal guarantees**: equal to `torch.optim` run client by client, up to rounding. **Edge cases**: nothing here changes
its arguments, so a state may be kept and stepped again (which `component_adaptive` does to predict a step).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.train.settings import LocalTraining

OptimizerState = Mapping[str, Tensor]
"""Tensors by name, each with one row a client."""


@dataclass(frozen=True)
class Optimizer:
    """What every optimiser offers; by itself it is plain SGD: w ← w − η·g."""

    learning_rate: float

    def init(self, rows: Tensor) -> OptimizerState:
        """Returns the state before the first step."""
        return {}

    def direction(self, state: OptimizerState, gradients: Tensor) -> tuple[Tensor, OptimizerState]:
        """Returns the vectors against which to go, by the learning rate, and the state after the step."""
        return gradients, state

    def step(self, state: OptimizerState, gradients: Tensor) -> tuple[Tensor, OptimizerState]:
        """Returns what to add to the weights, and the state after the step."""
        direction, state = self.direction(state, gradients)
        return direction * -self.learning_rate, state


class Sgd(Optimizer):
    """w ← w − η·g."""


@dataclass(frozen=True)
class Momentum(Optimizer):
    """v ← γ·v + g, then w ← w − η·v."""

    momentum: float

    def init(self, rows: Tensor) -> OptimizerState:
        return {"velocity": torch.zeros_like(rows)}

    def direction(self, state: OptimizerState, gradients: Tensor) -> tuple[Tensor, OptimizerState]:
        velocity = torch.add(gradients, state["velocity"], alpha=self.momentum)
        return velocity, {"velocity": velocity}


@dataclass(frozen=True)
class Adam(Optimizer):
    """Kingma and Ba (2015), with bias correction by each client's own number of steps."""

    betas: tuple[float, float]
    damping: float

    def init(self, rows: Tensor) -> OptimizerState:
        # steps in double precision: 1 − βᵗ cancels in single, and torch uses Python's floats there
        steps = torch.zeros(len(rows), 1, dtype=torch.float64)
        return {"first": torch.zeros_like(rows), "second": torch.zeros_like(rows), "steps": steps}

    def direction(self, state: OptimizerState, gradients: Tensor) -> tuple[Tensor, OptimizerState]:
        beta1, beta2 = self.betas
        steps = state["steps"] + 1
        first = torch.lerp(state["first"], gradients, 1 - beta1)
        second = (state["second"] * beta2).addcmul_(gradients, gradients, value=1 - beta2)
        correction1, correction2 = 1 - beta1**steps, (1 - beta2**steps).sqrt()
        root = second.sqrt().div_(correction2.to(second.dtype)).add_(self.damping)
        direction = first.div(root).div_(correction1.to(first.dtype))
        return direction, {"first": first, "second": second, "steps": steps}


@dataclass(frozen=True)
class RmsProp(Optimizer):
    """s ← α·s + (1−α)·g², then w ← w − η·g/(√s + damping)."""

    decay: float
    damping: float

    def init(self, rows: Tensor) -> OptimizerState:
        return {"second": torch.zeros_like(rows)}

    def direction(self, state: OptimizerState, gradients: Tensor) -> tuple[Tensor, OptimizerState]:
        second = (state["second"] * self.decay).addcmul_(gradients, gradients, value=1 - self.decay)
        return gradients / second.sqrt().add_(self.damping), {"second": second}


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

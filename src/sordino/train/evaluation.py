"""How good a model is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.models.losses import Loss
from sordino.train.gradients import Gradients


@dataclass(frozen=True)
class Evaluation:
    """Losses and right predictions of a model.

    **Edge cases**: a model with a single output predicts a class by its sign; targets that are numbers are never right.
    """

    gradients: Gradients
    loss: Loss

    def __call__(self, w: Tensor, x: Tensor, y: Tensor) -> tuple[float, int]:
        """Returns the sum of losses, and the number of right predictions."""
        with torch.no_grad():
            outputs = self.gradients.outputs(w[None], x[None])[0]
            total = float(self.loss(outputs, y).sum(dtype=torch.float64))
        return total, 0 if y.is_floating_point() else int(right(outputs, y).sum())


@dataclass(frozen=True)
class ModelOutputs:
    """What a model says of records."""

    gradients: Gradients

    def __call__(self, w: Tensor, x: Tensor) -> Tensor:
        """Returns its outputs, one row a record."""
        with torch.no_grad():
            return self.gradients.outputs(w[None], x[None])[0]


def right(outputs: Tensor, labels: Tensor) -> Tensor:
    """Returns which predictions are right."""
    scores = outputs.flatten(1)
    return scores.argmax(1) == labels if scores.shape[1] > 1 else (scores[:, 0] > 0) == (labels > 0)

"""How good a model is."""

from __future__ import annotations

import torch
from torch import Tensor

from sordino.train.gradients import Gradients, Loss


def evaluate(
    gradients: Gradients, loss: Loss, w: Tensor, x: Tensor, y: Tensor, batch: int
) -> tuple[float, float | None]:
    """Returns the mean loss, and the share of right predictions (None where targets are numbers).

    **Edge cases**: a model with a single output predicts by its sign. Records must not be empty.
    """
    total, right, classes = 0.0, 0, not y.is_floating_point()
    with torch.no_grad():
        for records, targets in zip(x.split(batch), y.split(batch), strict=True):
            outputs = gradients.outputs(w[None], records[None])[0]
            total += float(loss(outputs, targets).sum(dtype=torch.float64))
            right += int(_right(outputs, targets).sum()) if classes else 0
    return total / len(y), right / len(y) if classes else None


def _right(outputs: Tensor, labels: Tensor) -> Tensor:
    scores = outputs.flatten(1)
    return scores.argmax(1) == labels if scores.shape[1] > 1 else (scores[:, 0] > 0) == (labels > 0)

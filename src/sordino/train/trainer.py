"""Local training of a cohort: all clients at once, one row each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from sordino.data.federation import ClientData
from sordino.randomness import Randomness
from sordino.stages import Trace, Update
from sordino.train.batches import EpochBatches, Rectangle
from sordino.train.functional import FunctionalGradients, Loss
from sordino.train.optimizers import optimizer
from sordino.train.settings import LocalTraining


class Trainer:
    """Trains the clients of a cohort from the same weights."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        settings: LocalTraining,
        engine: str = "auto",
        chunk: int | None = None,
        after_step: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        self.settings = settings
        self.optimizer = optimizer(settings)
        self.gradients = FunctionalGradients(model, loss)
        self.loss = loss
        self.after_step = after_step

    def train(self, w0: Tensor, data: ClientData, randomness: Randomness, round_: int, trace: bool = False) -> Update:
        """Trains every client from w0 and returns u = w_K − w_0, one row a client."""
        sizes = np.diff(data.offsets)
        batches = EpochBatches(data.offsets, data.clients, self.settings.batch_size, randomness, round_)
        counts = (
            np.full(len(sizes), self.settings.steps)
            if self.settings.steps
            else batches.per_epoch * (self.settings.epochs or 1)
        )
        w = w0.detach().repeat(len(sizes), 1)
        state = dict(self.optimizer.init(w))
        before, previous, last = (torch.zeros_like(w) for _ in range(3))
        kept = {name: value.clone() for name, value in state.items()}
        for step in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > step)
            at = torch.from_numpy(rows)
            gradients = torch.zeros(len(rows), w.shape[1])
            place = np.empty(len(sizes), np.int64)
            place[rows] = np.arange(len(rows))
            for rectangle in batches.step(step, rows):
                gradients[torch.from_numpy(place[rectangle.rows])] = self._mean_gradients(w, data, rectangle)
            old = {name: value[at] for name, value in state.items()}
            delta, new = self.optimizer.step(old, gradients)
            if trace:
                previous[at], last[at], before[at] = last[at], gradients, w[at]
                for name, value in old.items():
                    kept[name][at] = value
            w[at] += delta
            for name, value in new.items():
                state[name][at] = value
            if self.after_step is not None:
                w[at] = self.after_step(w[at], w0)
        left = Trace(before, previous, last, kept, int(counts.max(initial=0))) if trace else None
        return Update(data.clients, w - w0, sizes, left)

    def _mean_gradients(self, w: Tensor, data: ClientData, rectangle: Rectangle) -> Tensor:
        index = torch.from_numpy(rectangle.index)
        weights = torch.from_numpy(1 / rectangle.lengths).to(w.dtype)[:, None].expand(index.shape)
        if rectangle.mask is not None:
            weights = weights * torch.from_numpy(rectangle.mask)
        return self.gradients.gradients(w[torch.from_numpy(rectangle.rows)], data.x[index], data.y[index], weights)

    def evaluate(self, w: Tensor, x: Tensor, y: Tensor, batch: int = 4096) -> tuple[float, float | None]:
        """Returns the mean loss and the accuracy (None where outputs are not class scores)."""
        total, right = 0.0, 0
        with torch.no_grad():
            for part, target in zip(x.split(batch), y.split(batch), strict=True):
                outputs = self.gradients.outputs(w[None], part[None])[0]
                total += float(self.loss(outputs, target).sum(dtype=torch.float64))
                if not y.is_floating_point():
                    right += int(_right(outputs, target).sum())
        return total / len(y), None if y.is_floating_point() else right / len(y)


def _right(outputs: Tensor, labels: Tensor) -> Tensor:
    """Returns which predictions are right: the largest score, or the sign of a single one."""
    scores = outputs.flatten(1)
    return scores.argmax(1) == labels if scores.shape[1] > 1 else (scores[:, 0] > 0) == (labels > 0)

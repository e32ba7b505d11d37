"""Gradients client by client, by plain autograd: for modules that `vmap` cannot run, and as an oracle in tests."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sordino.models.losses import Loss
from sordino.train.gradients import summed_clients, summed_examples
from sordino.train.stateless import Stateless


class LoopedGradients:
    """Gradients of one client after the other, and of one example after the other.

    **Formal guarantees**: those of `Gradients`. An example, and a client, is copied before it is looked at, so that it
    begins where every other one does: libraries may add up otherwise what lies askew in memory.
    """

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self._forward, self.loss = Stateless(model), loss

    def outputs(self, rows: Tensor, x: Tensor) -> Tensor:
        rows = rows.expand(len(x), -1)
        return torch.stack([self._forward(row, batch.clone()) for row, batch in zip(rows, x, strict=True)])

    def gradients(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        rows = rows.expand(len(x), -1)
        return torch.stack([self._gradient(*client) for client in zip(rows, x, y, weights, strict=True)])

    def clipped_clients(
        self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor, bound: float, groups: list[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        return summed_clients(self.gradients(rows, x, y, weights), bound)

    def clipped_examples(self, rows: Tensor, x: Tensor, y: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
        one = rows.new_ones(1)
        rows = rows.expand(len(x), -1)
        examples = [
            torch.stack([self._gradient(row, x_j[None], y_j[None], one) for x_j, y_j in zip(xs, ys, strict=True)])
            for row, xs, ys in zip(rows, x, y, strict=True)
        ]
        return summed_examples(torch.stack(examples), mask, bound)

    def _gradient(self, row: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        row = row.detach().clone().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self.loss(self._forward(row, x.clone()), y), row, weights)
        return gradient

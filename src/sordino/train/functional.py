"""Gradients of any `torch.nn.Module`: `vmap` over the forward pass of many clients, then one backward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from sordino.models.losses import Loss
from sordino.train.gradients import summed_clients, summed_examples
from sordino.train.stateless import Stateless


class FunctionalGradients:
    """Gradients through `torch.func`, for modules whose layers we do not know."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self._forward, self.loss = Stateless(model), loss

    def outputs(self, rows: Tensor, x: Tensor) -> Tensor:
        if len(rows) == 1:
            with sdpa_kernel(SDPBackend.MATH):  # each record by itself: no other has a say in what is counted
                found: Tensor = vmap(lambda one: self._forward(rows[0], one[None])[0])(x.flatten(0, 1))
            return found.view(*x.shape[:2], *found.shape[1:])
        outputs: Tensor = vmap(self._forward)(rows, x)
        return outputs

    def gradients(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        rows = rows.detach().expand(len(x), -1).requires_grad_()
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):  # the other kernels have no rule for vmap
            outputs: Tensor = vmap(self._forward)(rows, x)  # one client's, too: company changes no bit
            losses = self.loss(outputs.flatten(0, 1), y.flatten(0, 1))
            (gradients,) = torch.autograd.grad(losses, rows, weights.flatten())
        return gradients

    def clipped_clients(
        self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor, bound: float, groups: list[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        return summed_clients(self.gradients(rows, x, y, weights), bound)

    def clipped_examples(self, rows: Tensor, x: Tensor, y: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
        # each example as a client of its own
        own = rows.expand(x.shape[0], -1).repeat_interleave(x.shape[1], 0)
        alone = self.gradients(own, x.flatten(0, 1)[:, None], y.flatten(0, 1)[:, None], own.new_ones(len(own), 1))
        examples = alone.view(*x.shape[:2], -1)
        return summed_examples(examples, mask, bound)

"""Gradients of any `torch.nn.Module`, for many clients at once: `vmap` over the forward pass, one backward pass."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from sordino.layout import Layout

Loss = Callable[[Tensor, Tensor], Tensor]
"""Losses of single examples: `(outputs [n, …], targets [n, …]) → [n]`."""


class FunctionalGradients:
    """Gradients through `torch.func`, for modules whose layers we do not know."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self.model, self.loss, self.layout = model, loss, Layout.of(model)

    def outputs(self, rows: Tensor, x: Tensor) -> Tensor:
        """Returns each client's outputs under its own weights: `[n, d], [n, b, …] → [n, b, …]`."""

        def forward(row: Tensor, batch: Tensor) -> Tensor:
            outputs: Tensor = functional_call(self.model, self.layout.unflatten(row), (batch,))
            return outputs

        outputs: Tensor = vmap(forward)(rows, x)
        return outputs

    def gradients(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """Returns each client's gradient of Σ_j weights[k, j]·loss(k, j): `[n, d]`."""
        rows = rows.detach().requires_grad_()
        with torch.enable_grad():
            losses = self.loss(self.outputs(rows, x).flatten(0, 1), y.flatten(0, 1))
            (gradients,) = torch.autograd.grad((losses * weights.flatten()).sum(), rows)
        return gradients

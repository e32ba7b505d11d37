"""Layers without weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.errors import ModelError


@dataclass(frozen=True)
class Relu:
    """max(x, 0)."""

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.relu()
        return y, y

    def backward(self, rows: Tensor, saved: Tensor, error: Tensor) -> Tensor:
        result: Tensor = torch.ops.aten.threshold_backward(error, saved, 0)
        return result


@dataclass(frozen=True)
class Flatten:
    """Joins all dimensions of an example into one, of so many numbers where a width is given."""

    width: int | None = None

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.flatten(2)
        if self.width not in (None, flat.shape[2]):
            raise ModelError(
                f"the model's view makes rows of {self.width} numbers, but a record has {flat.shape[2]} there, so "
                "that it would mix records: use torch.flatten(x, 1)."
            )
        return flat, x

    def backward(self, rows: Tensor, saved: Tensor, error: Tensor) -> Tensor:
        # in the memory order of the inputs, which the layers before go on with
        return torch.empty_like(saved).copy_(error.view(saved.shape))


@dataclass(frozen=True, eq=False)
class Plain:
    """Any module without weights that acts on each example by itself: its backward pass is autograd's."""

    module: nn.Module

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._apply(x), x

    def backward(self, rows: Tensor, saved: Tensor, error: Tensor) -> Tensor:
        with torch.enable_grad():
            x = saved.detach().requires_grad_()
            (result,) = torch.autograd.grad(self._apply(x), x, error)
        return result

    def _apply(self, x: Tensor) -> Tensor:
        y: Tensor = self.module(x.flatten(0, 1))
        return y.view(*x.shape[:2], *y.shape[1:])

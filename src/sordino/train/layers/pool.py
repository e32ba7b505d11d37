"""Max pooling as maxima of shifted views: many times faster on the CPU than the library's, with the same ties."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class MaxPool2d:
    """Maxima over windows of `size`, `stride` apart, without padding.

    **Formal guarantees**: equal to `torch.nn.MaxPool2d`, and so is the gradient: of equal entries the first gets it.
    """

    size: tuple[int, int]
    stride: tuple[int, int]

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._down(self._across(x)), x

    def backward(self, rows: Tensor, saved: Tensor, error: Tensor) -> Tensor:
        across = self._across(saved)
        error = _route(across, -2, self.size[0], self.stride[0], error)
        return _route(saved, -1, self.size[1], self.stride[1], error)

    def _across(self, x: Tensor) -> Tensor:
        return _maximum(x, -1, self.size[1], self.stride[1])

    def _down(self, x: Tensor) -> Tensor:
        return _maximum(x, -2, self.size[0], self.stride[0])


def _shifted(x: Tensor, dim: int, size: int, stride: int) -> list[Tensor]:
    """Returns, for each place in a window, the view of x that holds this place of every window."""
    count = (x.shape[dim] - size) // stride + 1
    stop = (count - 1) * stride + 1
    index = [slice(None)] * x.dim()
    views = []
    for place in range(size):
        index[dim] = slice(place, place + stop, stride)
        views.append(x[tuple(index)])
    return views


def _maximum(x: Tensor, dim: int, size: int, stride: int) -> Tensor:
    first, *others = _shifted(x, dim, size, stride)
    for view in others:
        first = torch.maximum(first, view)
    return first


def _route(x: Tensor, dim: int, size: int, stride: int, error: Tensor) -> Tensor:
    """Returns the error at x: each window hands its error to the first of its largest entries."""
    views, out = _shifted(x, dim, size, stride), torch.zeros_like(x)
    targets = _shifted(out, dim, size, stride)
    best = [views[0]]
    for view in views[1:-1]:
        best.append(torch.maximum(best[-1], view))
    for place in range(size - 1, 0, -1):
        # where this entry beats all before it, it takes what is left of the error
        taken = torch.ops.aten.threshold_backward(error, views[place] - best[place - 1], 0)
        targets[place].add_(taken)
        error = error - taken
    targets[0].add_(error)
    return out

"""What a hand-written layer offers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from torch import Tensor

IntPair = tuple[int, int]
"""Something in two directions, down and across."""

ROUNDING = 2.0**-20
"""Relative error of a float32 sum of some thousand products, generously (unit roundoff is 2⁻²⁴)."""


@dataclass(frozen=True)
class Component:
    """Where one parameter lies in a row."""

    start: int
    shape: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        """Number of scalars."""
        return math.prod(self.shape)

    def of(self, rows: Tensor) -> Tensor:
        """Returns the parameter's view of rows: `[n, d] → [n, *shape]`."""
        return rows.narrow(1, self.start, self.size).view(-1, *self.shape)


class Layer(Protocol):
    """A layer that acts on each example by itself."""

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Any]:
        """Returns the outputs, and what the backward pass needs."""

    def backward(self, rows: Tensor, saved: Any, error: Tensor) -> Tensor:
        """Returns the error at the inputs, from the error at the outputs."""


class Weighted(Layer, Protocol):
    """A layer with weights. What it saves are its inputs, so that its gradient follows from those and the error."""

    def gradient(self, x: Tensor, error: Tensor, out: Tensor) -> None:
        """Writes each client's gradient into its row of `out [n, d]`."""

    def squared_norms(self, x: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        """Returns each client's squared gradient norm, and the sum of its examples' gradient norms: `[n]` each.

        Both are rounded up: neither is less than it would be in exact arithmetic, the second may be more.
        """

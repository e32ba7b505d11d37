"""What a hand-written layer offers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

IntPair = tuple[int, int]
"""Something in two directions, down and across."""

ROUNDING = 2.0**-20
"""What is added to norms where examples cancel, relative to what cancelled, beyond what rounding asks for."""

SINGLE_ERROR = 2.0**-23
"""Relative error of one operation in single precision, twice over: n of them are off by less than n times this."""

DOUBLE_ERROR = 2.0**-52
"""The same in double precision."""

DOUBLES = 2**17
"""Numbers that are turned into doubles at once, so that they stay in a core's own cache."""

TINY = 2.0**-126
"""What a square below the smallest normal number may lose."""

FLOOR = 2.0**-100
"""What is added to squares so that whatever TINY they lose is a small share of them."""

PIECE = 128
"""Entries whose products are added up in single precision; sums of pieces are in double precision."""


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
        """Writes each client's gradient into its row of `out [n, d]`, added up in the precision that `out` has."""

    def squared_norms(self, x: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        """Returns each client's squared gradient norm, and the sum of its examples' gradient norms: `[n]` each.

        Both are rounded up: neither is less than it would be in exact arithmetic, the second may be more.
        """


class Single(Weighted, Protocol):
    """A layer whose gradients of single examples are in memory anyway: those are what is clipped and added up."""

    def examples(self, x: Tensor, error: Tensor) -> tuple[Tensor, ...]:
        """Returns each example's own gradient by each of the layer's weights, `[n, b, entries]`."""

    def place(self, sums: tuple[Tensor, ...], out: Tensor) -> None:
        """Writes sums of such gradients into the rows of `out [n, d]`."""


Term = tuple[Weighted, Tensor, Tensor]
"""A layer, its inputs, and the error at its outputs."""


def product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Writes products of matrices, added up in the precision that `out` has."""
    if out.dtype == left.dtype:
        torch.bmm(left, right, out=out)
        return
    count = max(32, DOUBLES // (left.shape[1] + right.shape[2]))  # fewer rows make fixed costs count
    if right.shape[1] <= count:
        torch.bmm(left.double(), right.double(), out=out)
    else:
        out.zero_()
        for one, other, total in zip(left, right, out, strict=True):
            for some, others in zip(one.split(count, 1), other.split(count), strict=True):
                total.addmm_(some.double(), others.double())

"""Weights whose gradient is in memory for every example by itself: scales and shifts, and whatever has no other way."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.products import added, outer
from sordino.train.layers.layer import Component
from sordino.train.layers.linear import Linear


@dataclass(frozen=True)
class Whole:
    """One parameter of which every example had a copy: the error is that example's gradient, and inputs do not matter.

    **Formal guarantees**: sums and norms of vectors that are in memory, in double precision.
    """

    weight: Component

    def gradient(self, x: Tensor, error: Tensor, out: Tensor) -> None:
        self.place(tuple(each.sum(1, dtype=out.dtype) for each in self.examples(x, error)), out)

    def squared_norms(self, x: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        each = torch.cat(self.examples(x, error), 2).double()
        lengths = torch.linalg.vector_norm(each, dim=2).sum(1)
        return each.sum(1).square().sum(1).to(error.dtype), lengths.to(error.dtype)

    def examples(self, x: Tensor, error: Tensor) -> tuple[Tensor, ...]:
        """Returns each example's own gradient, `[n, b, entries]`."""
        return (error.reshape(*error.shape[:2], -1),)

    def place(self, sums: tuple[Tensor, ...], out: Tensor) -> None:
        self.weight.of(out).copy_(sums[0].view(len(out), *self.weight.shape))


@dataclass(frozen=True)
class Affine(Whole):
    """y = w·x + c, entry by entry: what follows a normalisation, whose outcome is x. Positions `[n, b, p, entries]`."""

    bias: Component | None = None

    def examples(self, x: Tensor, error: Tensor) -> tuple[Tensor, ...]:
        parts = (x * error,) if self.bias is None else (x * error, error)
        return tuple(added(part.flatten(0, 1)).reshape(*error.shape[:2], -1) for part in parts)

    def place(self, sums: tuple[Tensor, ...], out: Tensor) -> None:
        super().place(sums, out)
        if self.bias is not None:
            self.bias.of(out).copy_(sums[1].view(len(out), *self.bias.shape))


@dataclass(frozen=True)
class LinearOverTime(Linear):
    """A linear layer that every example passes at several positions `[n, b, p, entries]`, with gradients in memory.

    For layers that are not too large this is the cheapest way: products of single precision, and no second ones for
    the sum. The vector that was computed is the one that is clipped, so that its own rounding does not matter.
    """

    def examples(self, x: Tensor, error: Tensor) -> tuple[Tensor, ...]:
        """Returns each example's own gradient, `[n, b, entries]` by weights and by bias."""
        errors = error.flatten(0, 1)
        by_weight = outer(errors, x.flatten(0, 1))
        parts = (by_weight,) if self.bias is None else (by_weight, added(errors))
        return tuple(part.reshape(*error.shape[:2], -1) for part in parts)

    def place(self, sums: tuple[Tensor, ...], out: Tensor) -> None:
        """Writes sums of such gradients into the rows of `out [n, d]`."""
        self.weight.of(out).copy_(sums[0].view(len(out), *self.weight.shape))
        if self.bias is not None:
            self.bias.of(out).copy_(sums[1])

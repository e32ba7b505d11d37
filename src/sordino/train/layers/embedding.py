"""Embeddings: rows of a table that are looked up by number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.train.layers.layer import DOUBLE_ERROR, SINGLE_ERROR, TINY, Component

_FEW = 256
"""Look-ups of a client among which all pairs are compared; with more, its table is laid out."""


@dataclass(frozen=True)
class Embedding:
    """y = W[x]. Only the rows that were looked up have a gradient, so that no table of an example is in memory.

    **Formal guarantees**: squared norms by ‖Σ_i 1[x_i] e_iᵀ‖² = Σ_ij [x_i = x_j]·⟨e_i, e_j⟩, rounded up as in `Linear`.
    """

    weight: Component
    padding: int | None = None

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        table = self.weight.of(rows)
        if len(table) == 1:
            return table[0][x], x
        return torch.stack([own[numbers] for own, numbers in zip(table, x, strict=True)]), x

    def backward(self, rows: Tensor, saved: Tensor, error: Tensor) -> Tensor:
        raise NotImplementedError("numbers have no gradient: an embedding is the first layer")

    def gradient(self, x: Tensor, error: Tensor, out: Tensor) -> None:
        numbers, errors = self._counting(x, error)
        count, entries = self.weight.shape
        table = errors.new_zeros(len(numbers) * count, entries, dtype=out.dtype)
        places = numbers + count * torch.arange(len(numbers), device=numbers.device)[:, None]
        table.index_add_(0, places.flatten(), errors.flatten(0, 1).to(out.dtype))
        self.weight.of(out).copy_(table.view(len(numbers), count, entries))

    def squared_norms(self, x: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        numbers, errors = self._counting(x, error)
        looked, entries = errors.shape[1:]
        singles = errors.square().sum(2).add_(entries * TINY).mul_(1 + (entries + 8) * SINGLE_ERROR).add_(TINY)
        lengths = singles.sqrt().sum(1)
        if looked <= _FEW:
            wide = errors.double()
            same = numbers[:, :, None] == numbers[:, None, :]
            squares = torch.bmm(wide, wide.mT).mul_(same).sum((1, 2))
        else:
            squares = torch.stack([self._laid_out(*client) for client in zip(numbers, errors, strict=True)])
        rounding = (entries + looked**2) * DOUBLE_ERROR
        return squares.add_(lengths.double().square_(), alpha=rounding).to(lengths.dtype), lengths

    def _laid_out(self, numbers: Tensor, errors: Tensor) -> Tensor:
        table = errors.new_zeros(self.weight.shape, dtype=torch.float64)
        return table.index_add_(0, numbers, errors.double()).square_().sum()

    def _counting(self, x: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        """Returns numbers `[n, look-ups]` and errors `[n, look-ups, entries]`, zero where padding was looked up."""
        numbers, errors = x.flatten(1), error.flatten(1, -2)
        return numbers, errors if self.padding is None else errors.where((numbers != self.padding)[..., None], 0.0)

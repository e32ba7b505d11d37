"""Linear layers: one batched matrix product for all clients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.products import filled, first, inner, linear, times, wide
from sordino.train.layers.layer import DOUBLE_ERROR, FLOOR, PIECE, SINGLE_ERROR, TINY, Component, product


@dataclass(frozen=True)
class Linear:
    """y = x·Wᵀ + b. Inner dimensions (a sequence) count as further rows of x.

    Weights that clients share are multiplied with the examples of all at once, and a client's own with its own, as many
    clients as there are: a client alone is computed by the same products as beside others, and a record by the same at
    every place (`products.py`).

    **Formal guarantees**: squared norms by the Gram identity ‖Σ_i e_i x_iᵀ‖² = Σ_ij ⟨x_i, x_j⟩⟨e_i, e_j⟩, which needs
    no gradient in memory where examples are few.
    **Reference**: Goodfellow (2015), "Efficient per-example gradient computations"; Li et al. (2022), ghost clipping.
    """

    weight: Component
    bias: Component | None

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        weight = self.weight.of(rows)
        bias = None if self.bias is None else self.bias.of(rows)
        if rows.shape[0] < x.shape[0]:
            y = linear(filled(x.flatten(0, -2)), weight[0], None if bias is None else bias[0])
            return y[: x[..., 0].numel()].view(*x.shape[:-1], -1), x
        flat, turned = wide(x.flatten(1, -2), 1), wide(weight, 2).mT
        y = torch.bmm(flat, turned) if bias is None else torch.baddbmm(wide(bias, 1).unsqueeze(1), flat, turned)
        return first(y, weight.shape[1]).view(*x.shape[:-1], -1), x

    def backward(self, rows: Tensor, saved: Tensor, error: Tensor) -> Tensor:
        weight = self.weight.of(rows)
        if rows.shape[0] < error.shape[0]:
            found = times(filled(error.flatten(0, -2)), weight[0])
            return found[: error[..., 0].numel()].view(*error.shape[:-1], -1)
        found = torch.bmm(wide(error.flatten(1, -2), 1), wide(weight, 2))
        return first(found, weight.shape[2]).view(*error.shape[:-1], -1)

    def gradient(self, x: Tensor, error: Tensor, out: Tensor) -> None:
        x, error = x.flatten(1, -2), error.flatten(1, -2)
        product(error.mT, x, self.weight.of(out))
        if self.bias is not None:
            torch.sum(error, 1, dtype=out.dtype, out=self.bias.of(out))

    def squared_norms(self, x: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        x, error = x.flatten(1, -2), error.flatten(1, -2)
        count, inputs, outputs = x.shape[1], x.shape[2], error.shape[2]
        constant = 0 if self.bias is None else 1  # the bias is the weight of a constant input
        given, wrong = (torch.linalg.vector_norm(part, dim=2).square_() for part in (x, error))
        own = given.add_(constant + inputs * FLOOR).mul_(wrong.add_(outputs * FLOOR))
        singles = own.mul_(1 + (inputs + outputs + 8) * SINGLE_ERROR).add_(TINY)  # not below the truth
        if count == 1:
            return singles[:, 0], singles[:, 0].sqrt()
        # where examples cancel, rounding is relative to what cancelled
        lengths, rounding = singles.sqrt().sum(1), (inputs * outputs + count**2) * DOUBLE_ERROR
        if count < inputs * outputs / (inputs + outputs):
            squares = _gram(x).add_(constant).mul_(_gram(error)).sum((1, 2))
            rounding += (PIECE + 8) * SINGLE_ERROR
        else:
            squares = self._materialised(x.double(), error.double())
        return squares.add_(lengths.double().square_(), alpha=rounding).to(lengths.dtype), lengths

    def _materialised(self, x: Tensor, error: Tensor) -> Tensor:
        """The squared norms with every gradient in memory, which is cheaper for many examples."""
        squares = torch.bmm(error.mT, x).square().sum((1, 2))
        return squares if self.bias is None else squares + error.sum(1).square().sum(1)


def _gram(rows: Tensor) -> Tensor:
    """Returns each client's inner products `[n, b, entries] → [n, b, b]`: pieces in single precision, added in double.

    **Formal guarantees**: ⟨u, v⟩ is off by at most 129·2⁻²⁴·‖u‖·‖v‖ + entries·TINY, in whatever order a piece is added
    up (Higham 2002, §3.1, and Cauchy-Schwarz over the pieces). Where squares have a FLOOR an entry, TINY is below 2⁻²⁶
    of ‖u‖·‖v‖, so a product of two such sums is off by at most 260·2⁻²⁴ of the lengths' product.
    """
    one, *others = rows.split(PIECE, 2)
    sums = inner(one).double()
    for part in others:
        sums += inner(part)
    return sums

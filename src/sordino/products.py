"""Products of rows with a matrix in which what becomes of a row follows from that row alone, to the last bit.

Libraries have kernels of their own for thin matrices. They add up a row's products in an order that follows from where
the row begins in memory, and so from its place among others, and choose another kernel where there are few rows. A
record that comes or goes moves all those after it to other places: what was exactly zero for some of them (before a
ReLU, say) is then a little more or less, and their gradients are others altogether. So thin matrices are made wide by
zeros, few rows many, and many rows are multiplied a part at a time: MKL was seen (AVX-512) to take another kernel below
16 rows where the matrix comes transposed, and from 190 rows on where it does not and is large. What is assumed of
libraries beyond that is tried before training (`train/alike.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

THIN = 16
"""Matrices with fewer rows or columns than this are made wider."""

FEW = 16
"""Rows that products have at least: among fewer, libraries add up what a row is made of in another order."""

_MANY = 256
"""Fewest rows where several threads may share them out."""

_PART = 128
"""Most rows of one product with a matrix that is not transposed, where it is large."""

_LARGE = 2**14
"""Fewest entries of a large matrix."""


def wide(tensor: Tensor, dimensions: int) -> Tensor:
    """Returns a tensor whose last so many dimensions have at least `THIN` entries: zeros are added."""
    sizes = tensor.shape[-dimensions:]
    ends = [] if min(sizes) >= THIN else [end for size in reversed(sizes) for end in (0, max(0, THIN - size))]
    return torch.constant_pad_nd(tensor, ends) if ends else tensor


def first(tensor: Tensor, entries: int) -> Tensor:
    """Returns the first so many entries of the last dimension."""
    return tensor if tensor.shape[-1] == entries else tensor[..., :entries].contiguous()


def filled(x: Tensor) -> Tensor:
    """Returns rows `[n, …]`, of which there are at least `FEW`: the first comes again at the end."""
    lacking = FEW - len(x)
    return torch.cat([x, x[:1].expand(lacking, *x.shape[1:])]) if lacking > 0 and len(x) else x


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x·Wᵀ + b for rows `[…, inputs]`, of which there are at least `FEW`, on one thread."""
    return first(functional.linear(wide(x, 1), wide(weight, 2), None if bias is None else wide(bias, 1)), len(weight))


def shared(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x·Wᵀ + b for rows `[…, inputs]`, of which there are at least four, on one thread: faster for many."""
    found = times(x, weight.mT.contiguous())
    return found if bias is None else found.add_(bias)


def times(x: Tensor, weight: Tensor) -> Tensor:
    """Returns x·W for rows `[…, inputs]`, of which there are at least four, on one thread."""
    rows, turned = wide(x, 1).flatten(0, -2), wide(weight, 2)  # flat, or the library may take them one by one
    if turned.numel() < _LARGE or len(rows) <= _PART:
        out = torch.mm(rows, turned)
    else:
        parts = rows.tensor_split(-(-len(rows) // _PART))  # of about the same length, so that none is short
        out = rows.new_empty(len(rows), turned.shape[1])
        for some, found in zip(parts, out.tensor_split(len(parts)), strict=True):
            torch.mm(some, turned, out=found)
    return first(out, weight.shape[1]).view(*x.shape[:-1], -1)


def stacked(x: Tensor, weights: Tensor, biases: Tensor | None = None) -> Tensor:
    """Returns x·Wᵀ + b of each of several weights `[n, outputs, inputs]`, for rows `[n, b, inputs]` of its own."""
    count, outputs = x.shape[1], weights.shape[1]
    filled = wide(x, 1) if count >= FEW else functional.pad(wide(x, 1), (0, 0, 0, FEW - count))
    turned = wide(weights, 2).mT
    if biases is None or outputs < THIN:
        found = torch.bmm(filled, turned)
    else:
        found = torch.baddbmm(biases.unsqueeze(1), filled, turned)
    found = found if count >= FEW else found[:, :count]
    if biases is None or outputs >= THIN:
        return first(found, outputs)
    return found.narrow(2, 0, outputs) + biases.unsqueeze(1)  # new, without what was added to make it wide


def stacked_times(x: Tensor, weights: Tensor) -> Tensor:
    """Returns x·W of each of several weights `[n, inputs, outputs]`, for rows `[n, b, inputs]` of its own."""
    filled, turned = wide(x, 1), wide(weights, 2)
    if x.shape[1] <= _PART:
        return first(torch.bmm(filled, turned), weights.shape[2])
    parts = filled.tensor_split(-(-x.shape[1] // _PART), 1)
    return first(torch.cat([torch.bmm(some, turned) for some in parts], 1), weights.shape[2])


def plus(base: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Returns base + x·W for rows `[n, inputs]`, as `linear` does."""
    return first(torch.addmm(wide(base, 1), wide(x, 1), wide(weight, 2)), weight.shape[1])


def matrices(left: Tensor, right: Tensor) -> Tensor:
    """Returns products of matrices `[…, n, k]` and `[…, k, m]`, each as it is computed beside any others."""
    return first(wide(left, 2) @ wide(right, 2), right.shape[-1])[..., : left.shape[-2], :]


def inner(rows: Tensor) -> Tensor:
    """Returns inner products of the rows of each matrix, `[n, b, k]` → `[n, b, b]`."""
    count = rows.shape[1]
    filled = rows if count % 4 == 0 else functional.pad(rows, (0, 0, 0, -count % 4))
    return torch.bmm(filled, filled.mT)[:, :count, :count]


def outer(error: Tensor, x: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns Σ_p error_p·x_pᵀ for each record, if need be in `out`: `[n, p, k]` and `[n, p, m]` make `[n, k, m]`."""
    count = error.shape[2]
    if count % 4 == 0:
        return torch.bmm(error.mT, x, out=out)
    found = torch.bmm(functional.pad(error, (0, -count % 4)).mT, x)[:, :count]
    return found if out is None else out.copy_(found)


def added(each: Tensor) -> Tensor:
    """Returns Σ_p each_p for each record, `[n, p, k]` → `[n, k]`: the library's own sum treats the last otherwise.

    By four rows of ones, in memory: of one that is repeated the library makes a product for every record by itself.
    """
    return outer(each.new_ones(*each.shape[:2], 4), each)[:, 0]


def few_or_many(x: Tensor, weight: Tensor) -> Tensor:
    """Returns x·Wᵀ for any number of rows `[n, inputs]`, on however many threads."""
    filled = x if len(x) >= _MANY else torch.cat([x, x.new_zeros(_MANY - len(x), x.shape[1])])
    return linear(filled, weight)[: len(x)]

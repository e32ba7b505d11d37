"""Whether a record's gradient is the same to the bit whoever shares its batch: what is assumed of the library."""

from __future__ import annotations

import torch
from torch import Tensor

from sordino.train.gradients import Gradients

COMPANY = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
"""Lengths of batches that are tried, of those that `batches.padded` makes."""


def batch_alike(gradients: Gradients, weights: Tensor, x: Tensor, y: Tensor, clients: int = 1) -> bool:
    """Returns whether the first record's clipped gradient is the same to the bit in batches of several lengths.

    The others are masked out, so they add zeros, which changes no bit in whatever order they are added: what differs is
    what the library made of the record beside so many others. Compared in single precision, in which it is made.

    Args:
        gradients: the engine.
        weights: one row, `[d]`.
        x: made-up records, `[100, …]`.
        y: their labels.
        clients: how many clients are computed at once, each with weights of its own where there are several.
    """
    rows = weights[None] if clients == 1 else weights.repeat(clients, 1)
    found = []
    for length in COMPANY:
        mask = torch.zeros(clients, length)
        mask[:, 0] = 1
        xs, ys = (part[:length].expand(clients, *part[:length].shape) for part in (x, y))
        found.append(gradients.clipped_examples(rows, xs, ys, mask, 1e30)[0].float())
    return all(torch.equal(sums[:1].expand_as(sums), sums) and torch.equal(sums, found[0]) for sums in found)

"""Whether a record's gradient, and answer, is the same to the bit whoever shares its batch, and wherever it stands."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sordino.products import FEW
from sordino.train.gradients import Gradients

COMPANY = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
"""Lengths of batches that tests try, of those that `batches.padded` makes."""
TRIED = (4, 6, 12, 48)
"""Those that are tried before every training."""

FULL = FEW
"""Fewest records of which answers are compared, and of which their number is a multiple."""

_PLACES = 8
"""Places that are tried: at the next ones, rows of an even width begin as far from a boundary of memory again."""
_BOUND = 1e-3
"""One that clips most records: the factor follows from a norm, which has to be the same, too."""


def batch_alike(
    gradients: Gradients, weights: Tensor, x: Tensor, y: Tensor, own: bool = False, lengths: Sequence[int] = COMPANY
) -> bool:
    """Returns whether the first record's clipped gradient is the same to the bit, in batches of several lengths.

    The others are masked out, so they add zeros, which changes no bit in whatever order they are added: what differs is
    what the library made of the record at that place beside so many others. Compared in single precision, in which it
    is made, and sums of either precision for themselves: a record's own terms may be added up in both.

    Args:
        gradients: the engine.
        weights: one row, `[d]`.
        x: made-up records, as many as the longest batch.
        y: their labels.
        own: whether clients have weights of their own; else they share one row.
        lengths: of the batches.
    """
    seen: dict[torch.dtype, Tensor] = {}
    for length in lengths:
        places = torch.arange(min(length, _PLACES), device=x.device)
        for some in [places] if own else [places, *places.split(1)]:  # clients side by side, or one alone
            rows = weights.repeat(len(some), 1) if own else weights[None]
            sums = _at(some, gradients, rows, x[:length], y[:length])
            like = seen.setdefault(sums.dtype, sums[:1].float())
            if not torch.equal(like.expand_as(sums), sums.float()):
                return False
    return True


def clients_alike(
    gradients: Gradients, weights: Tensor, x: Tensor, y: Tensor, lengths: Sequence[int] = (6, 20)
) -> bool:
    """Returns whether a client's gradient, and its norm, is the same to the bit alone and among others."""
    for length in lengths:
        alone, *others = (_of_clients(count, gradients, weights, x[:length], y[:length]) for count in (1, 2, 5))
        for found in others:
            if not all(torch.equal(one.expand_as(many), many) for one, many in zip(alone, found, strict=True)):
                return False
    return True


def _of_clients(count: int, gradients: Gradients, weights: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Returns gradients and norms of so many clients that hold the same."""
    many = torch.arange(len(x), device=x.device).expand(count, -1)
    shares = weights.new_full(many.shape, 1 / len(x))
    _, norms = gradients.clipped_clients(weights[None], x[many], y[many], shares, _BOUND)
    return gradients.gradients(weights.repeat(count, 1), x[many], y[many], shares), norms


def answers_alike(gradients: Gradients, weights: Tensor, x: Tensor, lengths: Sequence[int] = (16, 32, 48)) -> bool:
    """Returns whether the model says the same of the first record, to the bit, at every place among several others."""
    said = []
    for length in lengths:
        for place in range(_PLACES):
            order = (torch.arange(length, device=x.device) - place) % length
            said.append(gradients.outputs(weights[None], x[order][None])[0, place])
    return all(torch.equal(one, said[0]) for one in said)


def _at(places: Tensor, gradients: Gradients, rows: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Returns the first record's clipped gradient, for clients each of whom has it at another place."""
    order = (torch.arange(len(x), device=x.device) - places[:, None]) % len(x)
    return gradients.clipped_examples(rows, x[order], y[order], (order == 0).to(rows.dtype), _BOUND)[0]

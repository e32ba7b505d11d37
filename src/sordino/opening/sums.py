"""What openings that are sums of vectors share: short rows, one vector a client, and what vouches for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from sordino.data.client_data import Borrowed, ClientData
from sordino.stages import Update
from sordino.types import Unit

_MARGIN = 1e-6
"""How far below 1 a long row is put, so that single precision cannot lift it above."""
_LONGEST = 1e36
"""Rows of this length have factors near the smallest numbers of single precision, which are rounded coarsely."""


def short_rows(x: Tensor) -> Tensor:
    """Returns records of an L2 norm of at most 1: longer ones are scaled to it.

    **Edge cases**: records that are not finite, or so long that the factor has too few digits in single precision, are
    zero.
    """
    flat = x.flatten(1)
    lengths = torch.linalg.vector_norm(flat, dim=1, keepdim=True, dtype=torch.float64)
    factors = torch.where(lengths > 1 - _MARGIN, (1 - _MARGIN) / lengths, 1.0).to(x.dtype)
    return (flat * factors).where(lengths < _LONGEST, 0.0).view_as(x)


def client_rows(data: ClientData, vector: Callable[[Tensor], Tensor], width: int) -> Tensor:
    """Returns one vector a client, from the records of each, in double precision: one client's are copied at a time."""
    parts = [vector(_stretch(data, first, last)) for first, last in pairwise(data.offsets.tolist())]
    return torch.stack(parts) if parts else torch.empty(0, width, dtype=torch.float64)


def _stretch(data: ClientData, first: int, last: int) -> Tensor:
    """Returns x[first:last] without gathering what others hold: features of a whole population fill the memory."""
    if isinstance(data, Borrowed):
        return data.source_x.index_select(0, torch.from_numpy(data.records[first:last]))
    return data.x[first:last]


def told(data: ClientData, sums: Tensor, unit: Unit) -> Update:
    """Returns sums over records of norm 1 as an update: as they are (record unit), or as means (client unit)."""
    if unit == "record":
        return Update(data.clients, sums, data.sizes, example_clip=1.0)
    return Update(data.clients, sums / torch.from_numpy(data.sizes)[:, None], data.sizes)

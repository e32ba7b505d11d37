"""Sums of clipped gradients of clients that are in memory: small weights of all at once, large ones a group at a time.

The vectors that were computed are the ones that are clipped, so that their own rounding does not matter, nor how much
of a client's examples cancelled on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from sordino.train.gradients import clip_factors, held
from sordino.train.layers.layer import DOUBLES, PIECE, SINGLE_ERROR, TINY, Component, Term, Weighted
from sordino.train.layers.linear import Linear
from sordino.train.layers.single import Whole

NARROW = 2**17
"""Most weights of a model of which the gradients of a group of clients fit a cache."""

_SMALL = 2**11
"""Most weights of a layer whose gradients of all clients are in memory at once."""


class LayerRows:
    """Rows of a client's gradient by some of the layers, side by side.

    Args:
        terms: layers, their inputs, and the errors at their outputs.
    """

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms, self.width, self._places = list[Term](), 0, list[tuple[Component, Component]]()
        for layer, inputs, error in terms:
            moved = {name: self._moved(part) for name, part in vars(layer).items() if isinstance(part, Component)}
            self.terms.append((cast(Weighted, replace(cast(Any, layer), **moved)), inputs, error))
        self.width = max(1, -(-self.width // PIECE)) * PIECE

    def _moved(self, part: Component) -> Component:
        here = Component(self.width, part.shape)
        self._places.append((part, here))
        self.width += -(-part.size // 16) * 16  # so that it begins where the library's memory does: see `_room`
        return here

    def write(self, out: Tensor) -> None:
        """Writes the gradients of all clients into their rows."""
        for layer, inputs, error in self.terms:
            layer.gradient(inputs, error, out)

    def scatter(self, total: Tensor, out: Tensor) -> None:
        """Copies a row to where its parts lie in a whole one."""
        for there, here in self._places:
            there.of(out[None]).copy_(here.of(total[None]))


def clipped_rows(terms: list[Term], width: int, bound: float, groups: list[int] | None) -> tuple[Tensor, Tensor]:
    """Returns the sum of clients' clipped gradients `[width]` in double precision, and their norms.

    Args:
        terms: layers, the inputs `[n, b, …]` and the errors at their outputs.
        width: how many weights there are.
        bound: L2 bound on each gradient.
        groups: how many clients that follow each other may be added up in single precision (`groups.py`); by default
            all sums are in double precision.

    **Formal guarantees**: those of `Gradients.clipped_clients`, with one term to a client.
    **Edge cases**: where a gradient is not finite, its norm is not, and the sum means nothing.
    """
    parts = [part for term in terms for part in _parted(*term)]
    small, large = (
        LayerRows(part for part in parts if _size(part) <= _SMALL),
        LayerRows(p for p in parts if _size(p) > _SMALL),
    )
    clients, like = len(terms[0][2]), terms[0][2]
    held(clients, clients)
    rest = like.new_zeros(clients, small.width)
    small.write(rest)
    norms = _lengths(rest)
    out = like.new_zeros(width, dtype=torch.float64)
    if large.terms:
        total, norms = _by_groups(large, norms, bound, groups)
        large.scatter(total, out)
    small.scatter(torch.mv(rest.double().mT, clip_factors(norms, bound)), out)
    return out, norms.to(like.dtype)


def _by_groups(large: LayerRows, rest: Tensor, bound: float, groups: list[int] | None) -> tuple[Tensor, Tensor]:
    """Returns the sum of the large parts of clients' clipped gradients, and the norms of the whole ones."""
    count, clients, like = max(1, DOUBLES // large.width), len(rest), large.terms[0][2]
    sizes = [min(count, clients - first) for first in range(0, clients, count)] if groups is None else groups
    room = like.new_zeros(max(sizes), large.width)
    total, norms = room.new_zeros(large.width, dtype=torch.float64), list[Tensor]()
    split = [(layer, inputs.split(sizes), errors.split(sizes)) for layer, inputs, errors in large.terms]
    for place, (size, others) in enumerate(zip(sizes, rest.split(sizes), strict=True)):
        each = room[:size]
        for layer, inputs, errors in split:
            layer.gradient(inputs[place], errors[place], each)
        norms.append(torch.hypot(_lengths(each), others))
        factors = clip_factors(norms[-1], bound)
        if groups is None:
            total.addmv_(each.double().mT, factors)
        else:
            total.add_(torch.mv(each.mT, factors.to(each.dtype)))
    return total, torch.cat(norms)


def _parted(layer: Weighted, inputs: Tensor, error: Tensor) -> list[Term]:
    """Returns a linear layer's weight and its bias as two terms."""
    if type(layer) is not Linear or layer.bias is None or error.dim() > 3:
        return [(layer, inputs, error)]
    return [(Linear(layer.weight, None), inputs, error), (cast(Weighted, Whole(layer.bias)), error, error)]


def _size(term: Term) -> int:
    return sum(part.size for part in vars(term[0]).values() if isinstance(part, Component))


def _lengths(rows: Tensor) -> Tensor:
    """Returns the norms of rows `[n, pieces of 128]` in double precision, rounded up.

    Pieces of 128 squares in single precision, whose sums are off by less than 131 roundings, and the pieces in double.
    """
    pieces = torch.linalg.vector_norm(rows.unflatten(1, (-1, PIECE)), dim=2)
    norms: Tensor = torch.linalg.vector_norm(pieces, dim=1, dtype=torch.float64)
    return norms.mul_(1 + (PIECE + 8) * SINGLE_ERROR).add_((rows.shape[1] * TINY) ** 0.5)

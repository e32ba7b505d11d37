"""Gradients of models made of known layers, by hand-written passes over all clients at once.

One backward pass leaves, for each layer with weights, its inputs and the error at its outputs. Norms of gradients, and
sums of clipped ones, follow from those without any client's (or example's) gradient being in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from sordino.models.losses import Loss
from sordino.products import FEW
from sordino.train.closed_form import output_error
from sordino.train.gradients import SINGLE, clip_factors, held
from sordino.train.layers.layer import (
    DOUBLES,
    PIECE,
    ROUNDING,
    SINGLE_ERROR,
    TINY,
    Component,
    Layer,
    Single,
    Term,
    Weighted,
)
from sordino.train.rows import NARROW, clipped_rows

SPREAD = 128
"""Most that a unit's terms may be longer together than it is itself: beyond, it is clipped by their lengths."""

_ENTRIES = 16
"""Entries of single precision that fill the 64 bytes at whose multiples the library's memory begins."""


class LayeredGradients:
    """Gradients of a sequence of layers."""

    _all_written = False  # whether the layers' weights are all there is
    _narrow = False  # whether a group of clients' gradients fits the cache

    def __init__(self, layers: list[Layer], loss: Loss, width: int) -> None:
        self.layers, self.loss, self.width = layers, loss, width
        self._footprints: dict[tuple[int, ...], int] = {}
        self._first = min(place for place, layer in enumerate(layers) if hasattr(layer, "gradient"))
        parts = [part for layer in layers for part in vars(layer).values() if isinstance(part, Component)]
        self._all_written, self._narrow = sum(part.size for part in parts) == width, width <= NARROW

    def footprint(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
        """Returns how many numbers the layers hold for one record of the given shape."""
        if shape not in self._footprints:
            x, rows = torch.zeros(1, 1, *shape, dtype=dtype), torch.zeros(1, self.width)
            total = x.numel()
            for layer in self.layers:
                x, _ = layer.forward(rows, x)
                total += x.numel()
            self._footprints[shape] = total
        return self._footprints[shape]

    def outputs(self, rows: Tensor, x: Tensor) -> Tensor:
        turned = len(x) == 1  # as many clients with one record each: they share their weights
        x = x.transpose(0, 1) if turned else x
        for layer in self.layers:
            x, _ = layer.forward(rows, x)
        return x.transpose(0, 1) if turned else x

    def gradients(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        out = self._room(rows, len(x), rows.dtype)
        with torch.no_grad():
            for layer, inputs, error in self._terms(rows, x, y, weights):
                layer.gradient(inputs, error, out)
        return out

    def clipped_clients(
        self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor, bound: float, groups: list[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        total, norms = self._clip_clients(rows, x, y, weights, bound, groups)
        good = torch.isfinite(norms)
        if not good.any():
            return rows.new_zeros(self.width, dtype=torch.float64), norms
        if not good.all():
            kept = None if groups is None else [int(own.sum()) for own in good.split(groups) if own.any()]
            total, _ = self._clip_clients(rows, x[good], y[good], weights[good], bound, kept)
        return total, norms

    def clipped_examples(self, rows: Tensor, x: Tensor, y: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
        lacking = FEW - (x.shape[1] if len(rows) > 1 else mask.numel())
        if lacking > 0 and mask.numel():
            x, y = (torch.cat([part, part[:, :1].expand(-1, lacking, *part.shape[2:])], 1) for part in (x, y))
            sums, norms = self.clipped_examples(rows, x, y, functional.pad(mask, (0, lacking)), bound)
            return sums, norms[:, : mask.shape[1]]
        sums, norms = self._clip_examples(rows, x, y, mask, bound)
        good = torch.isfinite(norms)
        if not good.all():
            # another example of the client stands in for such a one, with weight 0: ∞·0 is not 0, and neither zeros nor
            # the example's own label need be harmless (a text that is padding alone); a client without any adds zero
            every = torch.arange(good.shape[1], device=good.device)
            taken = every.where(good, good.byte().argmax(1, keepdim=True))
            x, y = (part[torch.arange(len(part), device=good.device)[:, None], taken] for part in (x, y))
            sums, _ = self._clip_examples(rows, x, y, mask * good, bound)
            sums = sums.where(good.any(1, keepdim=True), 0.0)
        return sums, norms

    @torch.no_grad()
    def _clip_clients(
        self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor, bound: float, groups: list[int] | None
    ) -> tuple[Tensor, Tensor]:
        terms = self._shared_terms(rows, x, y, weights)
        if self._narrow:
            return clipped_rows(terms, self.width, bound, groups)
        norms = _norms([layer.squared_norms(inputs, error) for layer, inputs, error in terms])
        held(max(error[..., 0].numel() for _, _, error in terms), len(x), SPREAD)
        factors = clip_factors(norms, bound)[:, None]
        merged = [(layer, _together(inputs), _together(_scaled(error, factors))) for layer, inputs, error in terms]
        return self._collected(merged, rows.new_zeros(1, self.width, dtype=torch.float64))[0], norms

    @torch.no_grad()
    def _clip_examples(self, rows: Tensor, x: Tensor, y: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
        terms = self._shared_terms(rows, x, y, mask)
        single = {layer: layer.examples(inputs, error) for layer, inputs, error in terms if hasattr(layer, "examples")}
        others = [term for term in terms if term[0] not in single]
        squares = [_own(each) for parts in single.values() for each in parts]
        squares += [layer.squared_norms(_alone(inputs), _alone(error)) for layer, inputs, error in others]
        norms = _norms(squares).view(mask.shape)
        factors = clip_factors(norms, bound)
        scaled = [(layer, inputs, _scaled(error, factors)) for layer, inputs, error in others]
        positions = max([1, *(error[0, 0, ..., 0].numel() for _, _, error in others)])
        held(mask.shape[1] * positions, mask.shape[1], SPREAD if positions > 1 else 1)
        dtype = rows.dtype if mask.shape[1] * positions <= SINGLE else torch.float64
        out = self._collected(scaled, self._room(rows, len(x), dtype))
        for layer, parts in single.items():
            cast(Single, layer).place(tuple(_weighted(factors, each) for each in parts), out)
        return out, norms

    def _room(self, like: Tensor, count: int, dtype: torch.dtype) -> Tensor:
        """Returns room for gradients `[count, width]`, whose rows begin where the library's own memory does.

        Products are added up in another order where their result lies askew: a client's gradient would follow its
        place. What no layer writes is zero.
        """
        strides = -(-self.width // _ENTRIES) * _ENTRIES, 1
        room = like.new_empty_strided((count, self.width), strides, dtype=dtype)
        return room if self._all_written else room.zero_()

    def _collected(self, terms: list[Term], out: Tensor) -> Tensor:
        for layer, inputs, error in terms:
            layer.gradient(inputs, error, out)
        return out

    def _shared_terms(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> list[Term]:
        """Returns the terms of clients that may share their weights: one alone is computed as it is beside others."""
        if len(x) > 1:
            return list(self._terms(rows, x, y, weights))
        turned = self._terms(rows, *(part.transpose(0, 1) for part in (x, y, weights)))
        return [(layer, inputs.transpose(0, 1), error.transpose(0, 1)) for layer, inputs, error in turned]

    def _terms(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Iterator[Term]:
        """Yields the terms of the layers with weights, from the last to the first."""
        saved = []
        for layer in self.layers:
            x, kept = layer.forward(rows, x)
            saved.append(kept)
        error = output_error(self.loss, x, y, weights)
        for place in range(len(self.layers) - 1, self._first - 1, -1):
            layer, kept = self.layers[place], saved.pop()
            if hasattr(layer, "gradient"):
                yield cast(Weighted, layer), kept, error
            if place > self._first:
                error = layer.backward(rows, kept, error)


def _together(tensor: Tensor) -> Tensor:
    """Regroups `[n, b, …]` so that all examples belong to one client."""
    return tensor.flatten(0, 1).unsqueeze(0)


def _alone(tensor: Tensor) -> Tensor:
    """Regroups `[n, b, …]` so that each example is a client of its own."""
    return tensor.flatten(0, 1).unsqueeze(1)


def _scaled(error: Tensor, factors: Tensor) -> Tensor:
    return error * factors[(..., *[None] * (error.dim() - 2))]


def _own(each: Tensor) -> tuple[Tensor, Tensor]:
    """Returns squared norms and norms of gradients `[n, b, entries]` that are in memory, rounded up.

    Pieces of 128 squares in single precision, whose sums are off by less than 131 roundings, and the pieces in double.
    """
    flat = each.flatten(0, 1)
    whole = flat.shape[1] // PIECE * PIECE
    pieces = flat[:, :whole].unflatten(1, (-1, PIECE)), flat[:, whole:].unsqueeze(1)
    lengths = torch.cat([torch.linalg.vector_norm(part, dim=2) for part in pieces if part.numel()], 1)
    squares = lengths.double().square_().sum(1).add_(flat.shape[1] * TINY)
    squares = squares.mul_(1 + (PIECE + 8) * SINGLE_ERROR).to(each.dtype)
    return squares, squares.sqrt()


def _weighted(factors: Tensor, each: Tensor) -> Tensor:
    """Returns each client's sum of its examples' gradients times their factors; of many in double precision."""
    if each.shape[1] <= SINGLE:
        return torch.bmm(factors[:, None], each)[:, 0]
    sums = each.new_zeros(each.shape[0], each.shape[2], dtype=torch.float64)
    count = max(1, 2 * DOUBLES // each.shape[2])  # fewer rows make fixed costs count
    for total, rows, weights in zip(sums, each, factors.double(), strict=True):
        for some, shares in zip(rows.split(count), weights.split(count), strict=True):
            total.addmv_(some.double().mT, shares)
    return sums


def _norms(parts: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Returns the gradient norms of clients, rounded up, from their layers' squared norms and lengths.

    Where examples cancel, rounding is relative to what cancelled: the sum of the examples' own norms. It is added, so
    that a sum of gradients that are scaled by these norms keeps its bound; and no norm is below 1/128 of it.
    """
    squares, summands = torch.zeros(()), torch.zeros(())
    for square, lengths in parts:
        squares, summands = squares + square, summands + lengths.square()
    lengths = summands.sqrt()
    return (squares.clamp_min(0).sqrt() + ROUNDING * lengths).maximum(lengths / SPREAD)

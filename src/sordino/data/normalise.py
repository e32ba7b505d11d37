"""Scaling that uses public constants or the record itself, never statistics of anybody else's data."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from sordino.errors import DataError

_TINY = 1e-6
_IMAGES = 4
_ROWS_AT_ONCE = 8192


def as_is(x: Tensor) -> Tensor:
    """Leaves records as the loader scaled them (pixels in [0, 1])."""
    return x


def centre(x: Tensor) -> Tensor:
    """Maps [0, 1] to [−1, 1]."""
    return 2 * x - 1


def unit(x: Tensor) -> Tensor:
    """Divides each record by its own L2 norm. A zero record stays zero."""
    flat = x.flatten(1)
    return (flat / flat.pow(2).sum(1, keepdim=True).sqrt().clamp_min(_TINY)).view_as(x)


def standard(x: Tensor) -> Tensor:
    """Gives each record mean 0 and standard deviation 1 over its own features. A constant record becomes zero."""
    flat = x.flatten(1)
    centred = flat - flat.mean(1, keepdim=True)
    return (centred / centred.pow(2).mean(1, keepdim=True).sqrt().clamp_min(_TINY)).view_as(x)


def auto(x: Tensor) -> Tensor:
    """Standardises images, each by itself; leaves tables as they are (their features have no common scale)."""
    return standard(x) if x.dim() == _IMAGES else x


NORMALISE: dict[str, Callable[[Tensor], Tensor]] = {
    "auto": auto,
    "none": as_is,
    "centre": centre,
    "unit": unit,
    "standard": standard,
}
"""Normalisations by their recipe names. Each acts on every record alone, so none costs privacy."""


def scale(x: Tensor, name: str) -> Tensor:
    """Scales the records by name, in place and block by block (a large data set would not fit several times)."""
    if name not in NORMALISE:
        raise DataError(f"data.normalise is {name!r}: use one of {', '.join(NORMALISE)}.")
    for rows in x.split(_ROWS_AT_ONCE):
        rows.copy_(NORMALISE[name](rows))
    return x

"""Normalisation of features by the record itself: no statistic of anybody's data is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from sordino.errors import DataError

_TINY = 1e-5
_GROUPS = 27  # three channels each of the 81 that scattering makes of a plane
_NO_LENGTH = 1e-12


@dataclass(frozen=True)
class Root:
    """Takes the root of each feature's size and keeps its sign: large features no longer drown small ones.

    **Formal guarantees**: acts on each number by itself.
    """

    def __call__(self, x: Tensor) -> Tensor:
        return x.abs().sqrt_().copysign_(x)


@dataclass(frozen=True)
class GroupNorm:
    """Gives each group of channels of one record mean 0 and variance 1 over its channels and its points.

    Without a number of groups it takes 27, or each channel by itself where 27 does not divide the channels.

    **Formal guarantees**: acts on each record by itself, with public constants.
    **Edge cases**: a constant group becomes zero (1e-5 is added to the variance). Flat records have one point a
    channel. The number of groups must divide the number of channels, else a DataError names the field.
    **Reference**: Wu and He (2018), "Group normalization"; Tramèr and Boneh (2021), §3.1, before private training.
    """

    groups: int | None = None

    def __call__(self, x: Tensor) -> Tensor:
        groups = self.groups or (_GROUPS if x.shape[1] % _GROUPS == 0 else x.shape[1])
        if x.shape[1] % groups:
            raise DataError(
                f"data.feature_groups is {groups}, but records have {x.shape[1]} channels: use a number that "
                "divides them, or data.feature_norm = 'unit'."
            )
        grouped = x.reshape(len(x), groups, math.prod(x.shape[1:]) // groups)
        centred = grouped - grouped.mean(2, keepdim=True)
        return (centred / (centred.pow(2).mean(2, keepdim=True) + _TINY).sqrt()).view_as(x)


@dataclass(frozen=True)
class UnitRows:
    """Divides each record's features by their own L2 norm.

    **Formal guarantees**: every row has norm at most 1 (within rounding), so that the gradient of a linear model is no
    longer than the slope of its loss, and a sum of outer products φφᵀ has Frobenius sensitivity 1.
    **Edge cases**: a zero row stays zero.
    """

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        lengths: Tensor = flat.pow(2).sum(1, keepdim=True).sqrt()
        return (flat / lengths.clamp_min(_NO_LENGTH)).view_as(x)

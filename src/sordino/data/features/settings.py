"""Which features a recipe asks for, and how they are made from records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from sordino.data.features.cache import kept
from sordino.data.features.norms import GroupNorm, Root, UnitRows
from sordino.data.features.patches import WhitenedPatches
from sordino.data.features.random_features import RandomFourier, RandomPatches
from sordino.data.features.scattering import Scattering
from sordino.data.features.views import Mirrored, Opponent
from sordino.errors import DataError

FeatureKind = Literal["none", "scattering", "patches", "random"]
Norm = Literal["auto", "none", "unit", "group", "root"]
Colours = Literal["plain", "opponent"]
FeaturePart = Callable[[Tensor], Tensor]

_ROWS_AT_ONCE = 2048
_FULL = 32
"""Records in a block are a multiple of this."""
_IMAGES = 4


@dataclass(frozen=True)
class FeatureSettings:
    """Features of records: what is computed, and how the result is scaled.

    Attributes:
        kind: `none`, `scattering` (images), `patches` (whitened random patterns in images), or `random` (patterns
            in images, Fourier features of flat records).
        norm: `none`; `unit` divides each row by its norm; `group` normalises groups of channels and then rows; `root`
            takes roots before that; `auto` is `root` for scattering and `unit` for the others.
        groups: groups of channels for `group` and `root`; by default 27, or each channel where 27 does not divide them.
        scales: scales of the scattering transform.
        angles: angles of the scattering transform.
        count: random patterns or frequencies.
        seed: what random features are drawn from: public, and not the run's seed.
        colours: `opponent` turns red, green and blue into brightness and two contrasts first (`views.py`).
        mirror: features of an image and of its mirror image are added up, and rows scaled to norm 1.

    **Formal guarantees**: the features of a record depend on that record and these settings only, to the bit, whoever
    else is there. A client computes its own from one record as the simulation does from all, so unit, adjacency and
    sensitivity are those of the records.
    """

    kind: FeatureKind = "none"
    norm: Norm = "auto"
    groups: int | None = None
    scales: int = 2
    angles: int = 8
    count: int = 1000
    seed: int = 0
    colours: Colours = "plain"
    mirror: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(FeatureKind):
            raise DataError(f"data.features is {self.kind!r}: use one of {', '.join(get_args(FeatureKind))}.")
        if self.norm not in get_args(Norm):
            raise DataError(f"data.feature_norm is {self.norm!r}: use one of {', '.join(get_args(Norm))}.")
        if self.colours not in get_args(Colours):
            raise DataError(f"data.feature_colours is {self.colours!r}: use one of {', '.join(get_args(Colours))}.")

    @classmethod
    def told(cls, section: Iterable[tuple[str, Any]]) -> FeatureSettings:
        """Returns what a recipe's `data` section asks for, given by its fields' names and values."""
        values = dict(section)
        return cls(values["features"], **{field.name: values[f"feature_{field.name}"] for field in fields(cls)[1:]})

    def parts(self, dimensions: int) -> tuple[FeaturePart, ...]:
        """Returns the pure steps, in order, for records that make a batch of so many dimensions."""
        if self.kind == "none":
            return ()
        parts: tuple[FeaturePart, ...] = (self._first(dimensions), *self._norms())
        if self.mirror:
            parts = (Mirrored(parts),)
        return (Opponent(), *parts) if self.colours == "opponent" else parts

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the features of a record of this shape."""
        return record if self.kind == "none" else self._first(len(record) + 1).shape(record)

    def _first(self, dimensions: int) -> Scattering | WhitenedPatches | RandomPatches | RandomFourier:
        if self.kind == "scattering":
            return Scattering(self.scales, self.angles)
        if self.kind == "patches":
            return WhitenedPatches(self.count, seed=self.seed)
        if dimensions == _IMAGES:
            return RandomPatches(self.count, seed=self.seed)
        return RandomFourier(self.count, seed=self.seed)

    def _norms(self) -> tuple[FeaturePart, ...]:
        norm = self.norm if self.norm != "auto" else "root" if self.kind == "scattering" else "unit"
        steps: dict[str, tuple[FeaturePart, ...]] = {
            "none": (),
            "unit": (UnitRows(),),
            "group": (GroupNorm(self.groups), UnitRows()),
            "root": (Root(), GroupNorm(self.groups), UnitRows()),
        }
        return steps[norm]

    def __call__(self, x: Tensor, folder: Path | None = None) -> Tensor:
        """Returns the features of each record, kept in a folder if one is named."""
        parts = self.parts(x.dim())
        if not parts:
            return x
        # what was kept of flat records before rows were computed alike is not taken
        told = f"{self!r}, rows alike" if x.dim() != _IMAGES else repr(self)
        return kept(told, x, lambda records: _through(parts, records), folder)


def _through(parts: tuple[FeaturePart, ...], x: Tensor) -> Tensor:
    """Returns records after all parts, block by block: a large data set would not fit several times.

    Blocks are filled up, as libraries and their threads treat few records otherwise than many.
    """
    out: Tensor | None = None
    for start in range(0, max(1, len(x)), _ROWS_AT_ONCE):
        some = x[start : start + _ROWS_AT_ONCE]
        block = torch.cat([some, some[:1].expand(-len(some) % _FULL, *some.shape[1:])])
        for part in parts:
            block = part(block)
        if out is None:
            out = torch.empty((len(x), *block.shape[1:]), dtype=torch.float32)
        out[start : start + len(some)] = block[: len(some)]
    assert out is not None
    return out

"""Scaling by declared ranges: public constants, so it costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from sordino.errors import DataError
from sordino.printable import listed, quoted

Range = tuple[float, float]
Outside = Literal["refuse", "clip"]
"""What happens to a value outside its declared range: it contradicts the declaration, or it is moved to the edge."""
EVERY = "*"
"""Stands for all features that are not named."""


def scaled(
    name: str, x: Tensor, ranges: Mapping[str, Range], columns: Sequence[str] = (), outside: Outside = "refuse"
) -> Tensor:
    """Returns records whose features are mapped from their declared ranges to [−1, 1].

    **Formal guarantees**: each value is mapped by itself with declared constants; no other record has a say.

    Args:
        name: how errors call the data.
        x: records, features in their last dimension (images: `*` alone, for every pixel).
        ranges: lowest and highest value by the name of a feature, by its number, or for all others by `*`.
        columns: names of the features, if they have any.
        outside: whether values outside are refused or clipped.

    **Edge cases**: features without a range stay as they are.
    """
    width = x.shape[-1]
    low, high = torch.full((width,), -1.0), torch.full((width,), 1.0)
    named = torch.zeros(width, dtype=torch.bool)
    for feature, ends in sorted(ranges.items(), key=lambda item: item[0] != EVERY):
        least, most = _ends(feature, ends)
        if not least < most:
            raise DataError(f"public.ranges.{feature} is [{least:g}, {most:g}]: the lower end must come first.")
        place = slice(None) if feature == EVERY else _place(name, feature, columns, width, x.dim())
        low[place], high[place], named[place] = least, most, True
    wrong = ((x < low) | (x > high)) & named
    if outside == "refuse" and wrong.any():
        where = torch.nonzero(wrong)[0].tolist()
        feature = columns[where[-1]] if columns else str(where[-1])
        raise DataError(
            f"{name}: record {where[0]} has {x[tuple(where)]:g} in feature {feature}, outside the declared range "
            f'[{low[where[-1]]:g}, {high[where[-1]]:g}]: widen public.ranges, or set data.outside = "clip".'
        )
    inside = (2 * (x - low) / (high - low) - 1).clamp(-1, 1)
    return torch.where(named, inside, x)


def in_ranges(
    name: str,
    x: Tensor,
    ranges: Mapping[str, Range],
    columns: Sequence[str],
    outside: Outside,
    coded: int = 0,
    without_range: Literal["refuse", "zero"] = "refuse",
) -> Tensor:
    """Returns records of a table scaled by their ranges, with each gap (NaN) at the middle of its range, which is 0.

    Args:
        name: how errors call the data.
        x: records, with NaN where a value is missing.
        ranges: as for `scaled`.
        columns: names of the features.
        outside: whether values outside are refused or clipped.
        coded: how many features, the last ones, stand for words: they stay as they are.
        without_range: what becomes of a gap in a feature without a range, which has no middle.
    """
    amounts = x.shape[-1] - coded
    made = x[..., :amounts]
    if ranges and amounts:
        made = scaled(name, made, ranges, columns[:amounts], outside)
    gaps = made.isnan()
    if without_range == "refuse" and gaps.any():
        ranged = {place for place in range(amounts) if EVERY in ranges or {columns[place], str(place)} & set(ranges)}
        lacking = [columns[place] for place in sorted(set(torch.nonzero(gaps)[:, -1].tolist()) - ranged)]
        if lacking:
            raise DataError(
                f"{name}: data.missing = 'middle' stands for the middle of a declared range, and {listed(lacking)} "
                f"{'have' if len(lacking) > 1 else 'has'} gaps and no range: declare public.ranges for "
                f"{'them' if len(lacking) > 1 else 'it'}."
            )
    made = made.masked_fill(gaps, 0.0)
    return torch.cat([made, x[..., amounts:]], -1) if coded else made


def _ends(feature: str, ends: Any) -> Range:
    try:
        least, most = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise DataError(
            f"public.ranges.{feature} is {quoted(ends)}: give its lowest and its highest value, such as [0, 120]."
        ) from None
    return least, most


def _place(name: str, feature: str, columns: Sequence[str], width: int, dimensions: int) -> int:
    if dimensions == 2 and feature in columns:
        return columns.index(feature)
    if dimensions == 2 and feature.isdecimal() and int(feature) < width:
        return int(feature)
    known = listed(columns) if columns else f"0 … {width - 1}" if dimensions == 2 else "none by name"
    told = f"public.ranges names the feature {quoted(feature)}, but {name} has {known}"
    raise DataError(f"{told}; use `*` for all others.")

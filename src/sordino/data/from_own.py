"""Federations from what people have at hand: a data frame, one data loader a client, a CSV file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sordino.data.federation import Federation
from sordino.data.make import federate
from sordino.data.public import PublicCounts
from sordino.data.ranges import Outside, Range
from sordino.data.records import require_owners
from sordino.data.settings import PartitionSettings
from sordino.errors import DataError

Batches = Iterable[tuple[Any, Any]]
"""What a `torch.utils.data.DataLoader` yields: inputs and labels, batch by batch."""


def from_dataframe(
    frame: Any,
    label: str,
    client: str | None = None,
    drop: Sequence[str] = (),
    class_names: Sequence[str] = (),
    ranges: Mapping[str, Range] | None = None,
    outside: Outside = "refuse",
    **options: Any,
) -> Federation:
    """Makes a federation of a data frame: pandas', or anything with `columns` and columns by name.

    Args:
        frame: one row a record.
        label: the column to predict.
        client: the column that names the owner of each record, if there is one.
        drop: columns to leave out.
        class_names: the values of the label column, if it holds names, in the order of their classes.
        ranges: declared lowest and highest values of columns, which are mapped to [−1, 1].
        outside: what becomes of values outside them.
        **options: what else `Federation.of` takes.
    """
    columns = [str(name) for name in frame.columns]
    for name in (label, *([client] if client else []), *drop):
        if name not in columns:
            raise DataError(f"the data frame has no column {name!r}: it has {', '.join(columns)}.")
    used = tuple(name for name in columns if name not in {label, client, *drop})
    if not used:
        raise DataError("the data frame has no columns left to learn from: drop fewer.")
    x = np.stack([_numbers(frame, name) for name in used], axis=1)
    y = _labels(frame, label, class_names)
    named = None if client is None else np.asarray(frame[client])
    if named is not None:
        require_owners(f"the data frame's column {client!r}", named)  # before a gap becomes a name like others
    owners = None if named is None else [str(name) for name in named]
    public = options.get("public")
    if public is not None and public.ranges:  # by the names of columns, which `of` does not know
        ranges, options = ranges or public.ranges, options | {"public": replace(public, ranges=None)}
    options = {"name": "data frame"} | ({"classes": len(class_names)} if class_names else {}) | options
    made = Federation.of(x, y, owners, **options)
    if not ranges:
        return made
    told = PublicCounts(ranges={name: (low, high) for name, (low, high) in ranges.items()})
    return made.scaled(ranges, used, outside).noting(told)


def from_csv(
    file: str | os.PathLike[str],
    label: str = "label",
    client: str | None = None,
    *,
    public: PublicCounts | None = None,
    **options: Any,
) -> Federation:
    """Makes a federation of a CSV file with a header, read and split as `sordino run --data file.csv` does.

    Args:
        file: the file.
        label: the column to predict.
        client: the column that names the owner of each record; without one, every record is a client.
        public: what is declared public; a run asks for what is missing.
        **options: what else `sordino.data.federate` takes: `drop`, `class_names`, `classes`, `test`, `ranges`, …
    """
    spread = PartitionSettings("by_key" if client else "iid")
    if public is not None and public.ranges:
        options.setdefault("ranges", public.ranges)
    made = federate("csv", partition=spread, file=file, label=label, client=client, **options)
    return made if public is None else made.noting(public)


def from_dataloaders(
    loaders: Mapping[str, Batches] | Sequence[Batches], test: Batches | float | None = None, **options: Any
) -> Federation:
    """Makes a federation of one data loader a client; each is read once, to its end.

    Args:
        loaders: by the client's name, or in a list.
        test: a loader of test records, or a share of the clients to set aside, or None.
        **options: what else `Federation.of` takes.
    """
    named = loaders if isinstance(loaders, Mapping) else {str(place): one for place, one in enumerate(loaders)}
    if not named:
        raise DataError("there are no data loaders: give one a client.")
    parts = {str(name): _all(str(name), batches) for name, batches in named.items()}
    owners = [name for name, (_, y) in parts.items() for _ in range(len(y))]
    x, y = (torch.cat([part[place] for part in parts.values()]) for place in (0, 1))
    aside = test if test is None or isinstance(test, float) else _all("test", test)
    return Federation.of(x, y, owners, test=aside, **{"name": "data loaders"} | options)


def _numbers(frame: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(frame[name]).astype(np.float32)
    except (TypeError, ValueError):
        raise DataError(f"column {name!r} holds something that is no number: encode it, or name it in drop.") from None


def _labels(frame: Any, label: str, class_names: Sequence[str]) -> np.ndarray[Any, Any]:
    values = np.asarray(frame[label])
    if class_names:
        places = {name: place for place, name in enumerate(class_names)}
        unknown = next((value for value in values if value not in places), None)
        if unknown is not None:
            raise DataError(f"column {label!r} holds {str(unknown)!r}, which class_names lacks: add it.")
        return np.array([places[value] for value in values])
    if values.dtype.kind not in "iufb":
        raise DataError(f"column {label!r} holds names: list them in class_names, in the order of their classes.")
    return values


def _all(name: str, batches: Batches) -> tuple[Tensor, Tensor]:
    pairs = [(torch.as_tensor(x), torch.as_tensor(y)) for x, y in batches]
    if not pairs:
        raise DataError(f"the data loader of {name!r} is empty: leave the client out.")
    return torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])

"""Federations from what people have at hand: a data frame, one data loader a client, a CSV file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sordino.data.federation import Federation
from sordino.data.frame import FrameReader
from sordino.data.loaders.cells import Columns, Missing
from sordino.data.make import federate
from sordino.data.public import PublicCounts
from sordino.data.ranges import Outside, Range, in_ranges
from sordino.data.records import require_owners
from sordino.data.settings import PartitionSettings
from sordino.errors import DataError
from sordino.printable import quoted

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
    categories: Mapping[str, Sequence[str]] | None = None,
    missing: Missing = "refuse",
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
        categories: by column, the words that it can hold: each becomes a feature that is 1 or 0.
        missing: what becomes of gaps: `refuse`, `middle` (of the declared range), or `leave_out` their records.
        **options: what else `Federation.of` takes.
    """
    reader = FrameReader(frame)
    label, client, drop = (
        str(label),
        None if client is None else str(client),
        [drop] if isinstance(drop, str) else [str(one) for one in drop],
    )
    if label == client:
        raise DataError(f"label and client both name the column {quoted(label)}: name two different ones.")
    for name in (label, *([client] if client else []), *drop):
        reader.values(name)  # or it says that there is none
    if label in drop:
        raise DataError(f"drop names the column {quoted(label)}, which is the label: keep it.")
    used = Columns.of([name for name in reader.names if name not in {label, client, *drop}], categories or {}, missing)
    if not used.names:
        raise DataError("the data frame has no columns left to learn from: drop fewer.")
    numbers, kept = reader.features(used)
    if not len(numbers):
        raise DataError(
            "every record of the data frame has a gap: set missing='middle', or drop the columns with gaps."
        )
    y = reader.labels(label, class_names, kept)
    named = None if client is None else reader.values(client)[kept]
    if named is not None:
        require_owners(f"the data frame's column {client!r}", named)  # before a gap becomes a name like others
    owners = None if named is None else [str(name) for name in named]
    public = PublicCounts.of(options.get("public"))
    if public.ranges:  # by the names of columns, which `of` does not know
        ranges, options = ranges or public.ranges, options | {"public": replace(public, ranges=None)}
    options = {"name": "data frame"} | ({"classes": len(class_names)} if class_names else {}) | options
    read = torch.from_numpy(numbers)
    x = in_ranges(options["name"], read, ranges or {}, used.names, outside, used.coded)
    made = Federation.of(x, y, owners, read=read, **options)
    made = replace(made, columns=used.names, class_names=tuple(class_names))
    if not ranges:
        return made
    return made.noting(PublicCounts(ranges={name: (low, high) for name, (low, high) in ranges.items()}))


def from_csv(
    file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    label: str = "label",
    client: str | None = None,
    *,
    public: PublicCounts | None = None,
    **options: Any,
) -> Federation:
    """Makes a federation of a CSV file with a header, read and split as `sordino run --data file.csv` does.

    Args:
        file: the file; or several with the same columns in any order, or a pattern (`*.csv`).
        label: the column to predict.
        client: the column that names the owner of each record; without one, every file is a client where there are
            several, else every record.
        public: what is declared public; a run asks for what is missing.
        **options: what else `sordino.data.federate` takes: `drop`, `class_names`, `classes`,
            `categories`, `missing`, `decimal`, `test`, `ranges`, …
    """
    several = not isinstance(file, (str, os.PathLike)) or "*" in str(file)
    spread = PartitionSettings("by_key" if client or several else "iid")
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
    if not isinstance(loaders, Iterable):
        raise DataError(f"loaders is {quoted(loaders)}: give a list or a dictionary of data loaders, one a client.")
    named = loaders if isinstance(loaders, Mapping) else {str(place): one for place, one in enumerate(loaders)}
    if not named:
        raise DataError("there are no data loaders: give one a client.")
    parts = {str(name): _all(str(name), batches) for name, batches in named.items()}
    owners = [name for name, (_, y) in parts.items() for _ in range(len(y))]
    x, y = _joined(parts)
    aside = test if test is None or isinstance(test, float) else _all("test", test)
    return Federation.of(x, y, owners, test=aside, **{"name": "data loaders"} | options)


def _all(name: str, batches: Batches) -> tuple[Tensor, Tensor]:
    pairs = [_pair(name, batch) for batch in batches]
    if not pairs:
        raise DataError(f"the data loader of {name!r} is empty: leave the client out.")
    return _joined({f"{name}, batch {place}": pair for place, pair in enumerate(pairs)})


def _joined(parts: Mapping[str, tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    shapes = {name: (tuple(x.shape[1:]), tuple(y.shape[1:])) for name, (x, y) in parts.items()}
    first = next(iter(shapes))
    for name, shape in shapes.items():
        if shape != shapes[first]:
            raise DataError(
                f"the data loader of {name} yields records of shape {shape[0]} with labels of shape {shape[1]}, and "
                f"that of {first} {shapes[first][0]} with {shapes[first][1]}: give all records the same shape."
            )
    return torch.cat([x for x, _ in parts.values()]), torch.cat([y for _, y in parts.values()])


def _pair(name: str, batch: Any) -> tuple[Tensor, Tensor]:
    try:
        x, y = (torch.as_tensor(part) for part in batch)
        if not isinstance(batch, Mapping) and y.dim() and len(x) == len(y):
            return x, y
    except (TypeError, ValueError, RuntimeError):
        pass
    raise DataError(
        f"the data loader of {name!r} must yield pairs (inputs, labels) of tensors, batch by batch: wrap a data set in "
        "a DataLoader, and join several inputs into one tensor that the model's forward pass takes apart."
    )

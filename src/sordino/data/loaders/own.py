"""The user's own data: a CSV file with named columns, or an NPZ file with named arrays."""

from __future__ import annotations

import math
import os
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.data.finite import require_finite
from sordino.data.loaders.cells import CORRECT, BadCell, Columns, Decimal, Missing, NumberReader, gap, remedies
from sordino.data.loaders.mnist import pixels
from sordino.data.loaders.table import TableRow, hold_out, rows, separator_of, unsplit
from sordino.data.records import Records, count_classes, labels, require_owners
from sordino.errors import DataError, SordinoWarning
from sordino.printable import MOST_NAMES, listed, quoted

_MOST_CLASSES = 10**7
"""Whole numbers from here on are taken for something else than classes, and asked about."""
_ID = re.compile(r"(^|[^a-z])(id|uuid|mrn)$|#$", re.IGNORECASE)
"""Names that people give to columns of ids."""


def own_csv(
    folder: Path,
    file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    label: str = "label",
    client: str | None = None,
    drop: Sequence[str] = (),
    class_names: Sequence[str] = (),
    classes: int | None = None,
    test: float = 0.2,
    categories: Mapping[str, Sequence[str]] | None = None,
    missing: Missing = "refuse",
    decimal: Decimal = "auto",
    columns: Sequence[str] = (),
) -> Records:
    """Reads CSV files with a header each. Features are taken as they are: declare `public.ranges`.

    Cells may be parted by commas, semicolons, tabs or bars, as the header shows.

    Args:
        folder: the data folder.
        file: the file, as seen from the current folder, else from the data folder; or several, or a pattern
            (`*.csv`), with the same columns in any order.
        label: the column to predict: classes 0, 1, …, or `class_names`, or any number for regression.
        client: the column that names the owner of each record; of several files, each is an owner by default.
        drop: columns to leave out.
        class_names: the values of the label column, if it holds names, in the order of their classes.
        classes: number of classes; 0 for regression; by default regression if any target is not a whole number.
        test: share set aside for testing (the same in every run): of the owners where they hold several records
            each, with all that they hold, else of the records.
        categories: by column, the words that it can hold: each becomes a feature that is 1 or 0.
        missing: what becomes of gaps.
        decimal: the decimal mark.
        columns: the columns to learn from, in this order; by default all others, in the order of the file.
    """
    if label == client:
        raise DataError(f"data.label and data.client both name the column {quoted(label)}: name two different ones.")
    if columns and drop:
        raise DataError("data.columns lists what is used and data.drop what is not: give one of them.")
    paths = _places(folder, file)
    tables = [_table(path, label, client, drop, columns) for path in paths]
    for name in (*drop, *columns):
        if not any(name in table.header for table in tables):
            raise DataError(f"{paths[0]} has no column {quoted(name)}; it has {listed(tables[0].header)}.")
    names = list(tables[0].cells)
    for other in tables[1:]:
        if odd := set(names) ^ set(other.cells):
            where, lacks = (other.path, paths[0]) if (name := min(odd)) in other.cells else (paths[0], other.path)
            raise DataError(
                f"{where} has a column {quoted(name)} and {lacks} has none: drop it, or give all files the same."
            )
    used = Columns.of([n for n in columns or names if n not in {label, client}], categories or {}, missing)
    _warn_of_ids(used.numbers)
    x, y, owners = [], [], []
    for table, owner in zip(tables, _stems(paths), strict=True):
        numbers = NumberReader(table.separator, decimal)
        for place, line in enumerate(table.lines):
            cells = {name: column[place] for name, column in table.cells.items()}
            row = TableRow(table.path, line, list(cells.values()))
            try:
                features = used.features(cells, numbers)
            except BadCell as bad:
                kind = "is empty" if gap(cells[bad.name]) else f"is {quoted(cells[bad.name])}, which is no number"
                ways = remedies(used, [(one.separator, one.cells) for one in tables], decimal)
                raise row.error(bad.name, bad.why or f"{kind}; {ways}") from None
            if features is None:
                continue
            x.append(features)
            y.append(_target(row, label, cells[label], class_names, numbers))
            owners.append(cells[client] if client else owner)
            if client and not owners[-1]:
                raise row.error(client, "is empty; say whose record it is, or leave the line out")
    if not x or not used.names:
        raise DataError(f"{paths[0]} has {len(x)} records and {len(used.names)} feature columns; it needs both.")
    known = _classes(y, len(class_names) or classes, paths[0])
    targets = [int(value) for value in y] if known else y
    one = isinstance(file, (str, os.PathLike)) and _place(folder, file) in paths  # neither a list nor a pattern
    held = None if one and not client else owners
    return hold_out(unsplit(x, targets, known, held, used.names, used.coded), test, "own")


def _warn_of_ids(names: Sequence[str]) -> None:
    for name in filter(_ID.search, names):
        warnings.warn(
            f"column {name} is a feature, and its name is that of an id, from which nothing can be learned that holds "
            f"for others: leave it out (data.drop = [{name!r}]), or say that it names whose record it is (data.client)",
            SordinoWarning,
            stacklevel=2,
        )


@dataclass(frozen=True)
class _Table:
    """A table by column, without those that are left out."""

    path: Path
    separator: str
    header: list[str]
    lines: list[int]
    cells: dict[str, list[str]]


def _table(path: Path, label: str, client: str | None, drop: Sequence[str], columns: Sequence[str] = ()) -> _Table:
    _require(path)
    separator = separator_of(path)
    table = rows(path, comment="\0", separator=separator)
    header = next(table, None)
    if header is None:
        raise DataError(f"{path} is empty; it needs a header and a line for each record.")
    for name in header.fields:
        if header.fields.count(name) > 1:
            raise DataError(f"{path} has two columns {quoted(name)}: rename one.")
    for name in (label, *([client] if client else [])):
        if name not in header.fields:
            setting = "data.label" if name == label else "data.client"
            raise DataError(
                f"{path} has no column {quoted(name)} in its first line, which names {listed(header.fields)}: set "
                f"{setting} to one of them, or write the columns' names into that line."
            )
    unused = set(header.fields).difference(columns, [label, client]) if columns else set(drop)
    if "" in header.fields and "" not in unused:
        raise DataError(
            f"{path}: column {header.fields.index('') + 1} has no name (an index, as pandas writes it?): leave it out "
            'with data.drop = [""], or name it.'
        )
    found = list(table)
    kept = [(i, name) for i, name in enumerate(header.fields) if name not in unused]
    return _Table(
        path, separator, header.fields, [row.line for row in found], {n: [r.fields[i] for r in found] for i, n in kept}
    )


def own_npz(folder: Path, file: str | os.PathLike[str], classes: int | None = None, test: float = 0.2) -> Records:
    """Reads an NPZ file with arrays `x`, `y`, and optionally `client`, `test_x`, `test_y`.

    Integer `y` are classes, float `y` are regression targets. Images as bytes (uint8) are scaled to [0, 1]; other
    numbers are taken as they are. Without `test_x`, a share `test` is set aside (the same in every run).
    """
    path = _place(folder, file)
    arrays = _arrays(path)
    for name in ("x", "y", *(["test_y"] if "test_x" in arrays else [])):
        if name not in arrays:
            raise DataError(f"{path} lacks the array {name!r}; it has {listed(list(arrays))}.")
    x, y, owners = _inputs(arrays["x"]), labels(arrays["y"]), arrays.get("client")
    if len(x) != len(y) or (owners is not None and len(owners) != len(y)):
        raise DataError(f"{path}: x, y and client must have as many rows as each other.")
    if owners is not None:
        require_owners(f"{path}, client", owners)
    require_finite(f"{path}, x", x)
    require_finite(f"{path}, y", y)
    if "test_x" in arrays:
        test_x, test_y = _inputs(arrays["test_x"]), labels(arrays["test_y"])
        known = count_classes(y, test_y) if classes is None else classes
        return Records(x, y, test_x, test_y, known, owners)
    known = count_classes(y) if classes is None else classes
    return hold_out(Records(x, y, x[:0], y[:0], known, owners), test, "own")


def _place(folder: Path, file: str | os.PathLike[str]) -> Path:
    here = Path(file).expanduser()
    return folder / here if (folder / here).is_file() and not here.is_file() else here


def _places(folder: Path, file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Returns the files: one, several, or all that a pattern stands for, in alphabetical order."""
    asked = [file] if isinstance(file, (str, os.PathLike)) else list(file)
    found: list[Path] = []
    for one in asked:
        place = _place(folder, one)
        pattern = not place.is_file() and any(sign in place.name for sign in "*?[")
        found += sorted(place.parent.glob(place.name)) if pattern else [place]
        if pattern and not found:
            raise DataError(f"{place} stands for no file; correct data.file.")
    if len(set(found)) < len(found) or not found:
        raise DataError("data.file names a file twice, or none: name each once.")
    return found


def _stems(paths: Sequence[Path]) -> list[str]:
    """Returns what owners are called after their files."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _require(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path} is missing; put it there, or correct data.file.")


def _target(row: TableRow, name: str, text: str, class_names: Sequence[str], numbers: NumberReader) -> float:
    if class_names:
        if text not in class_names:
            raise row.error(name, f"is {quoted(text)}; it must be one of {listed(class_names)} (data.class_names)")
        return float(class_names.index(text))
    try:
        value = numbers.read(text)
    except DataError as error:
        raise row.error(name, str(error)) from None
    if gap(text):
        raise row.error(name, "is empty: fill in what is to be predicted, or leave the line out")
    if value is None:
        why = "which is no number: if it names classes, list them in data.class_names"
        raise row.error(name, f"is {quoted(text)}, {why}")
    if not math.isfinite(value):
        raise row.error(name, f"is {quoted(text)}, which is infinite or too large: {CORRECT}")
    return value


def _classes(y: list[float], classes: int | None, path: Path) -> int:
    whole = all(value == int(value) and value >= 0 for value in y)
    if classes and (odd := next((v for v in y if v not in range(classes)), None)) is not None:
        names = ", ".join(f'"{k}"' for k in range(1, classes + 1))
        from_one = classes <= MOST_NAMES and set(y) <= set(range(1, classes + 1))
        raise DataError(
            f"{path} has labels that are not 0 … {classes - 1}, such as {odd:g}: list them in data.class_names"
            + (f" (class_names = [{names}] where they begin at 1)" if from_one else "")
            + ", declare more classes, or public.classes = 0 if a number is to be predicted."
        )
    if classes is not None:
        return classes
    if whole and max(y) >= _MOST_CLASSES:
        raise DataError(
            f"{path} has the label {int(max(y))}: name classes in class_names, or set classes = 0 to predict a number."
        )
    return 1 + int(max(y)) if whole else 0


def _inputs(array: NDArray[Any]) -> Tensor:
    if array.dtype == np.uint8:
        return pixels(array)
    if array.dtype.kind == "c":
        raise DataError("x holds complex numbers: give real ones (such as their parts, side by side).")
    return torch.from_numpy(np.ascontiguousarray(array, np.float32))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    _require(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise DataError(f"{path} is not an .npz file of plain arrays ({error}); write it with numpy.savez.") from None

"""The user's own data: a CSV file with named columns, or an NPZ file with named arrays."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.data.finite import require_finite
from sordino.data.loaders.mnist import pixels
from sordino.data.loaders.table import TableRow, hold_out, rows, unsplit
from sordino.data.records import Records, count_classes, labels, require_owners
from sordino.errors import DataError


def own_csv(
    folder: Path,
    file: str | os.PathLike[str],
    label: str = "label",
    client: str | None = None,
    drop: Sequence[str] = (),
    class_names: Sequence[str] = (),
    classes: int | None = None,
    test: float = 0.2,
) -> Records:
    """Reads a CSV file with a header. Features are taken as they are: declare `public.ranges`.

    Args:
        folder: the data folder.
        file: the file, as seen from the current folder, else from the data folder.
        label: the column to predict: classes 0, 1, …, or `class_names`, or any number for regression.
        client: the column that names the owner of each record, if there is one.
        drop: columns to leave out.
        class_names: the values of the label column, if it holds names, in the order of their classes.
        classes: number of classes; 0 for regression; by default regression if any target is not a whole number.
        test: share set aside for testing (the same in every run): of the owners where they hold several records
            each, with all that they hold, else of the records.
    """
    path = _place(folder, file)
    _require(path)
    table = rows(path, comment="\0")
    header = next(table, None)
    if header is None:
        raise DataError(f"{path} is empty; it needs a header and a line for each record.")
    columns = {name: i for i, name in enumerate(header.fields)}
    for name in (label, *([client] if client else []), *drop):
        if name not in columns:
            raise DataError(f"{path} has no column {name!r}; it has {', '.join(columns)}.")
    used = [(i, name) for name, i in columns.items() if name not in {label, client, *drop}]
    x, y, owners = [], [], []
    for row in table:
        x.append([_number(row, i, name) for i, name in used])
        y.append(_target(row, columns[label], label, class_names))
        owners.append(row.fields[columns[client]] if client else "")
        if client and not owners[-1]:
            raise row.error(client, "is empty; say whose record it is, or leave the line out")
    if not x or not used:
        raise DataError(f"{path} has {len(x)} records and {len(used)} feature columns; it needs both.")
    known = _classes(y, len(class_names) or classes, path)
    targets = [int(value) for value in y] if known else y
    names = tuple(name for _, name in used)
    return hold_out(unsplit(x, targets, known, owners if client else None, names), test, "own", people=True)


def own_npz(folder: Path, file: str | os.PathLike[str], classes: int | None = None, test: float = 0.2) -> Records:
    """Reads an NPZ file with arrays `x`, `y`, and optionally `client`, `test_x`, `test_y`.

    Integer `y` are classes, float `y` are regression targets. Images as bytes (uint8) are scaled to [0, 1]; other
    numbers are taken as they are. Without `test_x`, a share `test` is set aside (the same in every run).
    """
    path = _place(folder, file)
    arrays = _arrays(path)
    for name in ("x", "y", *(["test_y"] if "test_x" in arrays else [])):
        if name not in arrays:
            raise DataError(f"{path} lacks the array {name!r}; it has {', '.join(arrays) or 'none'}.")
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
    return hold_out(Records(x, y, x[:0], y[:0], known, owners), test, "own", people=True)


def _number(row: TableRow, index: int, name: str) -> float:
    """Returns a feature; words are most often somebody's name, which is said."""
    try:
        float(row.fields[index])
    except ValueError:
        why = (
            f"is {row.fields[index]!r}, which is no number: if it says whose record it is, set data.client = {name!r} "
            f'(and partition.kind = "by_key", so that they are the clients); else encode it, or leave it out: '
            f"data.drop = [{name!r}]"
        )
        raise row.error(name, why) from None
    return row.number(index, name)


def _place(folder: Path, file: str | os.PathLike[str]) -> Path:
    here = Path(file).expanduser()
    return folder / here if (folder / here).is_file() and not here.is_file() else here


def _require(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path} is missing; put it there, or correct data.file.")


def _target(row: TableRow, index: int, name: str, class_names: Sequence[str]) -> float:
    return float(row.choice(index, name, class_names)) if class_names else row.number(index, name)


def _classes(y: list[float], classes: int | None, path: Path) -> int:
    whole = all(value == int(value) and value >= 0 for value in y)
    if classes and not whole:
        raise DataError(f"{path} has labels that are not 0 … {classes - 1}; name them in class_names.")
    if classes is not None:
        return classes
    return 1 + int(max(y)) if whole else 0


def _inputs(array: NDArray[Any]) -> Tensor:
    if array.dtype == np.uint8:
        return pixels(array)
    return torch.from_numpy(np.ascontiguousarray(array, np.float32))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    _require(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise DataError(f"{path} is not an .npz file of plain arrays ({error}); write it with numpy.savez.") from None

"""Where data lies: the folder that the user names, and the files in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sordino.errors import DataError

VARIABLE = "SORDINO_DATA"
_DEFAULT = "data"


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Returns the folder that holds the data sets: the one named, else $SORDINO_DATA, else `data` here."""
    return Path(folder or os.environ.get(VARIABLE) or _DEFAULT).expanduser()


def locate(root: Path, places: Iterable[str], markers: Iterable[str]) -> Path | None:
    """Returns the first of the places below root (or root itself, when it bears such a name) that has a marker file."""
    places, markers = list(places), list(markers)
    named = {part.lower() for place in places for part in Path(place).parts}
    candidates = [root / place for place in places] + ([root] if root.resolve().name.lower() in named else [])
    return next((path for path in candidates if any(any(path.glob(marker)) for marker in markers)), None)


def one_of(folder: Path, *names: str) -> Path:
    """Returns the file of the folder that has one of the names, plain or with .gz."""
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise DataError(f"{folder} lacks {names[0]} (or {names[0]}.gz); put it there.")

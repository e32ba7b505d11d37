"""What is known about a data set before any file is opened."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.data.files import VARIABLE, locate
from sordino.data.records import Records
from sordino.errors import DataError


@dataclass(frozen=True)
class Dataset:
    """A data set by name: what it is, who its natural clients are, and how to get it.

    Attributes:
        name: its name in recipes.
        description: one line.
        read: reads a folder (and options) into records.
        train: number of training records, if fixed.
        test: number of test records, if fixed.
        classes: number of classes; 0 for regression, None if the user's file decides.
        natural_key: who owns a record (writer, hospital), if the data says so.
        natural_clients: how many such owners there are.
        places: folders below the data folder in which it may lie; empty if it is installed or the user names a file.
        markers: patterns of files that show that it lies there.
        how_to_get: one sentence.
        class_names: what its classes are called, in their order, where they have names.
        unit: what the target is measured in (regression).
        public_test: whether its test records are published as such, or at least nobody's who trains.
    """

    name: str
    description: str
    read: Callable[..., Records]
    train: int | None = None
    test: int | None = None
    classes: int | None = None
    natural_key: str | None = None
    natural_clients: int | None = None
    places: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    how_to_get: str = ""
    public_test: bool = False
    class_names: tuple[str, ...] = ()
    unit: str = ""

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """What its reader takes besides the folder."""
        return dict(list(inspect.signature(self.read).parameters.items())[1:])

    def found(self, root: Path) -> Path | None:
        """Returns the folder that holds it, if there is one."""
        return locate(root, self.places, self.markers)

    def status(self, root: Path) -> str:
        """Returns `installed`, `yours`, `found` or `missing`."""
        if not self.places:
            return "yours" if "file" in self.options else "installed"
        return "found" if self.found(root) else "missing"

    def load(self, root: Path, options: dict[str, Any]) -> Records:
        """Reads the records from below the data folder."""
        self._check(options)
        if not self.places:
            return self.read(root, **options)
        folder = self.found(root)
        if folder is None:
            remedy = self.how_to_get[0].lower() + self.how_to_get[1:].removesuffix(".")
            raise DataError(
                f"data {self.name!r} is not in {root}: {remedy}, or name another folder by data.folder or ${VARIABLE}."
            )
        return self.read(folder, **options)

    def _check(self, options: dict[str, Any]) -> None:
        for name in options:
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise DataError(
                    f"data.{name} is set, but {self.name!r} has no such option (it has: {known}); remove it."
                )
        for name, parameter in self.options.items():
            if parameter.default is parameter.empty and name not in options:
                raise DataError(f"data.{name} is missing: {self.name!r} needs it. {self.how_to_get}")

"""Records that an operator lays into the federation's folder: to measure the model on, or for mechanisms to look at."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from sordino import data
from sordino.errors import FederationError
from sordino.federation.folder import FederationFolder
from sordino.federation.preparation import prepared

_TABLE = ("label", "drop", "columns", "class_names", "categories", "missing", "decimal")
"""Settings of a recipe's [data] that say how a table is read."""


def operator_records(folder: FederationFolder, name: Literal["test", "public"]) -> tuple[Tensor, Tensor] | None:
    """Returns the operator's own records: `NAME.npz` (arrays x and y) or `NAME.csv`, None where there is neither.

    A table is read as the recipe's [data] says. Whoever puts records there says, of `test`, that what is measured on
    them may be published; of `public`, that they are public: nothing hides what mechanisms compute from them.
    """
    found = [kind for kind in ("npz", "csv") if (folder.path / f"{name}.{kind}").exists()]
    if not found:
        return None
    if len(found) > 1:
        raise FederationError(f"{folder.path} has {name}.npz and {name}.csv: remove one of them")
    recipe, kind = folder.recipe, found[0]
    told = recipe.data.model_dump(include=set(_TABLE), exclude_none=True) if kind == "csv" else {}
    path, classes = folder.path / f"{name}.{kind}", recipe.public.classes
    records = data.load(kind, folder.path, file=path, test=0.0, classes=classes, **told)
    return prepared(recipe, folder.name, records), records.train_y

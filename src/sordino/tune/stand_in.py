"""Data that stand in for the private ones while settings are chosen: drawn here, or a public set by name.

**Formal guarantees**: nothing about private records is used: drawn data follow from the shape of a record, the number
of classes and the declared population and records; a public set is one that the user names. So what is chosen by them
costs nothing.
"""

from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sordino.data import DATASETS
from sordino.data.federation import Federation
from sordino.errors import RecipeError
from sordino.files import PUBLIC, replace_file
from sordino.recipe import Recipe
from sordino.types import FloatArray

SYNTHETIC = "synthetic"
_MOST = 20_000
"""Records that are drawn at most."""
_TEST = 1_000
_APART, _SMOOTH = 2.0, 3
_OWN = ("file", "label", "client", "drop", "columns", "class_names", "classes", "test")
"""Settings that belong to one data set and to no other."""


def stand_in(recipe: Recipe, federation: Federation, name: str, folder: Path) -> Recipe:
    """Returns the recipe on data that stand in for its own: `synthetic`, or a public data set by name.

    Args:
        recipe: what is to be tuned.
        federation: its data, of which only the shape of a record, the classes and what is declared public are used.
        name: `synthetic`, or a data set of `sordino data`.
        folder: where drawn data are kept (`stand-in.npz`).

    Raises:
        RecipeError: there is no such data set, or it is the private one itself.
    """
    tree = recipe.model_dump(exclude_none=True)
    tree["public"], tree["data"] = {"test": True}, {k: v for k, v in tree["data"].items() if k not in _OWN}
    tree["ledger"] = {}
    tree["budget"].pop("clients", None)  # they are not there
    if name == SYNTHETIC:
        norm = 1.0 if recipe.data.features != "none" else math.sqrt(math.prod(federation.input_shape))
        tree["data"] |= {"name": "npz", "file": _drawn(federation, folder, norm), "normalise": "none"}
        tree["data"]["features"] = "none"  # records are drawn as features, where the recipe makes some
        tree["public"] |= _counts(tree, federation)
        if tree["partition"]["kind"] == "by_key":
            tree["partition"] = {"kind": "iid", "clients": tree["public"]["population"]}
        return Recipe.from_dict(tree)
    if name not in DATASETS:
        raise RecipeError(f"--on {name!r} is no data set: use `{SYNTHETIC}`, or one that `sordino data` lists")
    if name == recipe.data.name:
        raise RecipeError(f"--on {name} is the recipe's own data: name another set, or pay for it with --charged")
    tree["data"]["name"] = name
    return Recipe.from_dict(tree)


def _counts(tree: dict[str, Any], federation: Federation) -> dict[str, Any]:
    told = federation.declared
    records = min(int(told.total), _MOST)
    tree["partition"]["clients"] = min(told.people, records)
    return {"population": tree["partition"]["clients"], "records": records, "classes": federation.classes}


def _drawn(federation: Federation, folder: Path, norm: float) -> Path:
    """Writes drawn records, and returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "stand-in.npz"
    if not path.exists():
        records = min(int(federation.declared.total), _MOST)
        x, y = drawn(federation.input_shape, federation.classes, records + _TEST, norm)
        cut = {"x": x[:records], "y": y[:records], "test_x": x[records:], "test_y": y[records:]}
        written = BytesIO()
        np.savez(written, **cut)
        replace_file(path, written.getvalue(), PUBLIC)
    return path.resolve()


def drawn(shape: tuple[int, ...], classes: int, records: int, norm: float) -> tuple[Any, Any]:
    """Returns records of a public law: each is a smooth pattern of its class and a smooth pattern of its own.

    Records are centred and of this norm: √d, as standardised images have, or 1, as features have. Without classes the
    target is a linear function of the record with noise.
    """
    generator, width = np.random.default_rng(0), math.prod(shape)
    labels = generator.integers(max(classes, 1), size=records)
    prototypes = _smooth(generator.standard_normal((max(classes, 1), width)), shape)
    x = prototypes[labels] + _APART * _smooth(generator.standard_normal((records, width)), shape)
    x -= x.mean(axis=1, keepdims=True)
    x *= norm / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    rows = x.reshape(records, *shape).astype(np.float32)
    if classes:
        return rows, labels
    target = x @ generator.standard_normal(width) / math.sqrt(width) + 0.5 * generator.standard_normal(records)
    return rows, target.astype(np.float32)


def _smooth(rows: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Returns rows of norm about √d whose neighbours along the last two axes are alike, as pixels are."""
    images = rows.reshape(len(rows), *shape)
    for axis in range(-min(2, len(shape)), 0) if len(shape) > 1 else ():
        images = sum(np.roll(images, step, axis) for step in range(_SMOOTH)) / math.sqrt(_SMOOTH)  # type: ignore[assignment]
    return images.reshape(len(rows), -1)

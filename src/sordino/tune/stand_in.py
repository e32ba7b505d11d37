"""Data that stand in for the private ones while settings are chosen: drawn here, or a public set by name.

**Formal guarantees**: nothing about private records is used: drawn data follow from the shape of a record, the number
of classes and the declared population and records; a public set is one that the user names. So what is chosen by them
costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import idctn
from scipy.stats import norm as norm_law

from sordino.account.accountants.exact import epsilon_of, separation_for
from sordino.data import DATASETS
from sordino.data.federation import Federation
from sordino.errors import RecipeError
from sordino.files import PUBLIC, replace_file
from sordino.mechanisms import MECHANISMS
from sordino.recipe import Recipe
from sordino.types import FloatArray

SYNTHETIC = "synthetic"
_MOST = 20_000
"""Records that are drawn at most."""
_TEST = 1_000
_BLOCK = 1_000
"""Records that are drawn at once."""
_MISSED = 0.1
"""The share of records that the best linear model misses, about."""
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
        tree["budget"] |= _budget(recipe, federation, tree["public"])
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


def _budget(recipe: Recipe, federation: Federation, drawn_of: Mapping[str, Any]) -> dict[str, float]:
    """Returns the ε with which fewer units than are declared have the noise, in their mean, that all would have."""
    spec, told, budget = MECHANISMS[recipe.mechanism.name], federation.declared, recipe.budget
    records = spec.unit_of(recipe.mechanism) == "record"
    fewer = told.total / drawn_of["records"] if records else told.people / drawn_of["population"]
    if budget.epsilon is None or fewer <= 1:
        return {}
    louder = math.sqrt(fewer) if spec.trust_of(recipe.mechanism) == "local" else fewer
    return {"epsilon": epsilon_of(louder * separation_for(budget.epsilon, budget.delta), budget.delta)}


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
    """Returns records of a public law: each is a pattern of its class and a pattern of its own.

    Own patterns have variances that fall like 1/k over cosine modes, the smoothest first, as those of natural images
    do (amplitudes like 1/f along rows and columns). What tells classes apart falls like 1/k² and is so large that the
    best linear model misses about one record in ten, whatever the shape: where records are many and long, a task that
    anybody solves could not tell a good setting from another. Without classes the target is a linear function of the
    record with noise. Records are of this norm: √d, as standardised images have, or 1, as features have.
    """
    generator, width = np.random.default_rng(0), math.prod(shape)
    own = _amplitudes(shape)
    labels = generator.integers(max(classes, 1), size=records)
    prototypes = _patterns(generator, classes, _apart(classes, width) * own**2) if classes else np.zeros((1, width))
    rows = np.empty((records, width), np.float32)
    for start in range(0, records, _BLOCK):
        mine = labels[start : start + _BLOCK]
        found = prototypes[mine] + _patterns(generator, len(mine), own)
        rows[start : start + _BLOCK] = found * (norm / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12))
    x = rows.reshape(records, *shape)
    if classes:
        return x, labels
    target = rows @ generator.standard_normal(width) / math.sqrt(width) + 0.5 * generator.standard_normal(records)
    return x, target.astype(np.float32)


def _amplitudes(shape: tuple[int, ...]) -> FloatArray:
    """Returns 1/√k for the k-th smoothest mode; the constant has none, so that records have mean 0."""
    frequencies = sum(place**2 for place in np.indices(shape))
    ranks = np.empty(math.prod(shape))
    ranks[np.argsort(np.ravel(frequencies), kind="stable")] = np.arange(ranks.size)
    return np.where(ranks > 0, 1 / np.sqrt(np.maximum(ranks, 1)), float(ranks.size == 1)).reshape(shape)


def _apart(classes: int, width: int) -> float:
    """Returns how large class patterns are, so that (classes − 1)·Φ(−δ/2) is `_MISSED` for two that are δ apart."""
    apart = -2 * norm_law.ppf(min(_MISSED / max(classes - 1, 1), 0.5))
    return float(apart / math.sqrt(2 * sum(1 / k for k in range(1, max(width, 2)))))


def _patterns(generator: np.random.Generator, count: int, amplitudes: FloatArray) -> FloatArray:
    """Returns random patterns, in rows: each mode with its amplitude."""
    modes = generator.standard_normal((count, *amplitudes.shape)) * amplitudes
    axes = tuple(range(1, modes.ndim))
    return np.asarray(idctn(modes, axes=axes, norm="ortho")).reshape(count, -1)

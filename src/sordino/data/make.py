"""From a name to a federation: load, set public records aside, scale, make features, and spread over clients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from sordino.data.catalogue import DATASETS
from sordino.data.features import FeatureSettings, cache_folder
from sordino.data.features.settings import FeatureKind
from sordino.data.federation import Federation
from sordino.data.files import data_folder
from sordino.data.keyed import key
from sordino.data.normalise import scale
from sordino.data.published import published
from sordino.data.ranges import Outside, Range, in_ranges
from sordino.data.record_hashes import record_hashes
from sordino.data.records import Records, split
from sordino.data.settings import PartitionSettings, spread
from sordino.errors import DataError


def load(name: str, folder: str | os.PathLike[str] | None = None, **options: Any) -> Records:
    """Returns the records of a data set by name.

    Args:
        name: a key of `DATASETS`.
        folder: the folder with the data sets; by default $SORDINO_DATA, else `data` in the current folder.
        **options: what this data set's reader takes (see `docs/data.md`); None counts as not given.
    """
    if name not in DATASETS:
        raise DataError(
            f"data.name is {name!r}: use one of {', '.join(DATASETS)}, or give your own (--data, federation=…)."
        )
    given = {option: value for option, value in options.items() if value is not None}
    return DATASETS[name].load(data_folder(folder), given)


def federate(
    name: str = "digits",
    folder: str | os.PathLike[str] | None = None,
    partition: PartitionSettings | None = None,
    seed: int = 0,
    normalise: str = "auto",
    public_fraction: float = 0.0,
    features: FeatureKind = "none",
    cache: str | os.PathLike[str] | None = None,
    ranges: Mapping[str, Range] | None = None,
    outside: Outside = "refuse",
    **options: Any,
) -> Federation:
    """Returns a federation over a data set by name.

    Args:
        name: a key of `DATASETS`.
        folder: the folder with the data sets.
        partition: how records are spread over clients; by default each training record is a client of its own.
        seed: keys the public split and the partition (never the test set, which is fixed).
        normalise: a key of `NORMALISE`.
        public_fraction: share of the training records that is declared public and set aside before anything else:
            nobody holds them, and whatever is computed from them costs no privacy.
        features: features that replace the records; with any, `auto` normalisation leaves the pixels as they are.
        cache: the folder that keeps features; "none" keeps none.
        **options: what this data set's reader takes; `feature_…` sets a field of `FeatureSettings`.
        ranges: declared lowest and highest values of features, which are mapped to [−1, 1] before `normalise`.
        outside: what becomes of values outside them.
    """
    wanted = FeatureSettings(features, **_take("feature_", options))
    records = load(name, folder, **options)
    kept_in = None if cache == "none" else cache_folder(cache)

    def prepared(x: Tensor) -> Tensor:
        plain = "none" if normalise == "auto" and wanted.kind != "none" else normalise
        return wanted(scale(x, plain), kept_in)

    hashes = record_hashes(records.train_x, records.train_y)  # before anything is made of them
    if ranges or options.get("missing") == "middle":
        train_x, test_x = (in_ranges(name, x, ranges or {}, records.columns, outside, records.coded)
                           for x in (records.train_x, records.test_x))  # fmt: skip
        records = replace(records, train_x=train_x, test_x=test_x)
    kept, aside = split(len(records.train_y), public_fraction, key(seed, "public"), "data.public_fraction")
    whole = not len(aside)  # then nothing need be copied
    train_x, train_y = (records.train_x, records.train_y) if whole else (records.train_x[kept], records.train_y[kept])
    owners = records.owners if whole or records.owners is None else records.owners[kept.numpy()]
    labels = train_y.numpy() if records.classes else None
    settings = partition or PartitionSettings()
    told = published(DATASETS[name], settings, len(records.train_y), len(aside))
    if any(options.get(option) is not None for option in ("classes", "class_names")):
        told = replace(told, classes=records.classes)  # the user's own setting, not a count
    return Federation(
        name,
        prepared(train_x),
        train_y,
        prepared(records.test_x),
        records.test_y,
        records.classes,
        spread(settings, labels, owners, len(train_y), seed),
        None if whole else prepared(records.train_x[aside]),
        None if whole else records.train_y[aside],
        replace(told, ranges=ranges or None),
        records.columns if wanted.kind == "none" else (),
        tuple(options.get("class_names") or DATASETS[name].class_names),
        hashes if whole else hashes[kept.numpy()],
        wanted.kind != "none",
    )


def _take(prefix: str, options: dict[str, Any]) -> dict[str, Any]:
    """Removes the options that begin so, and returns them under the rest of their names."""
    return {name.removeprefix(prefix): options.pop(name) for name in list(options) if name.startswith(prefix)}

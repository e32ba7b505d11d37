"""From a name to a federation: load, set public records aside, scale, and spread over clients."""

from __future__ import annotations

import os
from typing import Any

from sordino.data.catalogue import DATASETS
from sordino.data.federation import Federation
from sordino.data.files import data_folder
from sordino.data.keyed import key
from sordino.data.normalise import scale
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
        raise DataError(f"data.name is {name!r}: use one of {', '.join(DATASETS)}.")
    given = {option: value for option, value in options.items() if value is not None}
    return DATASETS[name].load(data_folder(folder), given)


def federate(
    name: str = "digits",
    folder: str | os.PathLike[str] | None = None,
    partition: PartitionSettings | None = None,
    seed: int = 0,
    normalise: str = "auto",
    public_fraction: float = 0.0,
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
        **options: what this data set's reader takes.
    """
    records = load(name, folder, **options)
    kept, aside = split(len(records.train_y), public_fraction, key(seed, "public"), "data.public_fraction")
    whole = not len(aside)  # then nothing need be copied
    train_x, train_y = (records.train_x, records.train_y) if whole else (records.train_x[kept], records.train_y[kept])
    owners = records.owners if whole or records.owners is None else records.owners[kept.numpy()]
    labels = train_y.numpy() if records.classes else None
    return Federation(
        name,
        scale(train_x, normalise),
        train_y,
        scale(records.test_x, normalise),
        records.test_y,
        records.classes,
        spread(partition or PartitionSettings(), labels, owners, len(train_y), seed),
        None if whole else scale(records.train_x[aside], normalise),
        None if whole else records.train_y[aside],
    )

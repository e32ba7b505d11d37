"""UCI heart disease: four hospitals, selected by FLamby's rule, scaled by public constants."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from sordino.data.keyed import key, shuffled
from sordino.data.loaders.table import TableRow, rows
from sordino.data.records import Records
from sordino.types import IntArray

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_TEST_SHARE = 0.34
_WIDTH = 14
# name: column, usual value, usual spread. Round clinical figures, not statistics of this data.
_AMOUNTS = {
    "age": (0, 50.0, 10.0),
    "trestbps": (3, 130.0, 20.0),
    "chol": (4, 220.0, 80.0),
    "thalach": (7, 140.0, 25.0),
    "oldpeak": (9, 1.0, 1.0),
}
_FLAGS = {"sex": 1, "fbs": 5, "exang": 8}
_CHOICES = {"cp": (2, (1.0, 2.0, 3.0, 4.0)), "restecg": (6, (0.0, 1.0, 2.0))}
_USED = range(10)
"""Columns 10, 11 and 12 (slope, ca, thal) are dropped, then every patient with an unknown value."""


def heart(folder: Path) -> Records:
    """Returns 15 features of 740 patients, whether they have heart disease, and their hospital as owner.

    About a third of each hospital's patients is set aside for testing, as in FLamby (the same numbers, by our own
    fixed shuffle).

    **Reference**: Terrail et al. (2022), "FLamby: Datasets and Benchmarks for Cross-Silo Federated Learning".
    """
    features, labels, hospitals = [], [], []
    for number, hospital in enumerate(HOSPITALS):
        for row in rows(folder / f"processed.{hospital}.data", _WIDTH):
            if "?" not in row.fields[: _USED.stop] and row.fields[-1] != "?":
                features.append(_encode(row))
                labels.append(int(row.number(_WIDTH - 1, "num") > 0))
                hospitals.append(number)
    x, y, owners = torch.tensor(features, dtype=torch.float32), torch.tensor(labels), np.array(hospitals)
    test = _test_records(owners)
    train = np.setdiff1d(np.arange(len(owners)), test)
    return Records(x[train], y[train], x[test], y[test], classes=2, owners=np.array(HOSPITALS)[owners[train]])


def _test_records(hospitals: IntArray) -> IntArray:
    chosen = []
    for number, name in enumerate(HOSPITALS):
        members = np.flatnonzero(hospitals == number)
        order = shuffled(key(0, f"heart {name}"), len(members))
        chosen.append(members[order[: math.ceil(_TEST_SHARE * len(members))]])
    return np.sort(np.concatenate(chosen))


def _encode(row: TableRow) -> list[float]:
    encoded = [(row.number(column, name) - usual) / spread for name, (column, usual, spread) in _AMOUNTS.items()]
    encoded += [row.number(column, name) for name, column in _FLAGS.items()]
    for name, (column, values) in _CHOICES.items():
        value = row.number(column, name)
        if value not in values:
            raise row.error(name, f"is {value}; it must be one of {values}")
        encoded += [float(value == choice) for choice in values]
    return encoded

"""FEMNIST's digits alone, by writer: as Google's TensorFlow Federated has them (HDF5), or as LEAF has them (json)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sordino.data.loaders.leaf import femnist
from sordino.data.records import Records
from sordino.errors import DataError

_FILES = {"train": "fed_emnist_digitsonly_train.h5", "test": "fed_emnist_digitsonly_test.h5"}
_DIGITS = 10


def femnist_digits(folder: Path) -> Records:
    """Returns digits `[1, 28, 28]`, ink 1 on paper 0, and the writer as owner.

    Google's files have 3,383 writers. LEAF's json has all 62 characters: its digits are kept, and writers without any
    are gone. Both have paper 1 and ink 0, which is turned round here, as MNIST has it.

    **Edge cases**: Google's files need the package h5py, which sordino does not install.
    """
    if all((folder / name).exists() for name in _FILES.values()):
        (train_x, train_y, owners), (test_x, test_y, _) = (_read(folder / name) for name in _FILES.values())
        return Records(train_x, train_y, test_x, test_y, _DIGITS, np.array(owners))
    every = femnist(folder)
    train, test = every.train_y < _DIGITS, every.test_y < _DIGITS
    if every.owners is None or not train.any() or not test.any():
        raise DataError(f"{folder} has no digits (labels 0 to 9): put Google's or LEAF's files of FEMNIST there.")
    kept = np.asarray(every.owners)[train.numpy()]
    return Records(
        1 - every.train_x[train], every.train_y[train], 1 - every.test_x[test], every.test_y[test], _DIGITS, kept
    )


def _read(path: Path) -> tuple[Tensor, Tensor, list[str]]:
    """Returns images, labels and each image's writer of one of Google's files."""
    try:
        import h5py  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise DataError(f"{path} is HDF5: install h5py to read it, or use LEAF's json.") from None
    images, labels, owners = [], [], []
    try:
        with h5py.File(path, "r") as file:
            for writer in sorted(file["examples"]):
                held: Any = file["examples"][writer]
                images.append(1.0 - np.asarray(held["pixels"], np.float32))
                labels.append(np.asarray(held["label"], np.int64))
                owners += [writer] * len(labels[-1])
    except (OSError, KeyError) as error:
        raise DataError(
            f"{path} does not hold examples → writer → pixels, label ({error}): download it again."
        ) from None
    x = torch.from_numpy(np.concatenate(images)).reshape(-1, 1, 28, 28)
    return x, torch.from_numpy(np.concatenate(labels)), owners

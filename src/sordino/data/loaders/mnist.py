"""MNIST, Fashion-MNIST, and MNIST with the writer of every image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.data.files import one_of
from sordino.data.loaders.idx import read_idx
from sordino.data.records import Records
from sordino.errors import DataError

_WRITER_COLUMN = 2


def mnist(folder: Path) -> Records:
    """Returns images `[n, 1, rows, columns]` with pixels in [0, 1], from four IDX files."""
    train_x, train_y = _split(folder, "train")
    test_x, test_y = _split(folder, "t10k")
    return Records(train_x, train_y, test_x, test_y, classes=10)


def mnist_writers(folder: Path, images: str = "") -> Records:
    """Returns MNIST with the NIST writer of each training image as its owner.

    Args:
        folder: where QMNIST's extended labels lie.
        images: folder with MNIST's four files; by default `mnist` or `MNIST/raw` beside `folder`.
    """
    places = [Path(images)] if images else [folder.parent / "mnist", folder.parent / "MNIST" / "raw", folder]
    found = next((place for place in places if any(place.glob("train-images*"))), places[0])
    records = mnist(found)
    path = one_of(folder, "qmnist-train-labels-idx2-int", "qmnist-train-labels.idx2-int")
    extended = read_idx(path)
    if extended.ndim != 2 or len(extended) < len(records.train_y) or extended.shape[1] <= _WRITER_COLUMN:
        raise DataError(f"{path} does not have a row of extended labels for each MNIST image; get it again.")
    extended = extended[: len(records.train_y)].astype(np.int64)
    if not np.array_equal(extended[:, 0], records.train_y.numpy()):
        raise DataError(f"{path} does not belong to the images in {found}: their labels differ.")
    return Records(
        records.train_x, records.train_y, records.test_x, records.test_y, classes=10, owners=extended[:, _WRITER_COLUMN]
    )


def pixels(raw: NDArray[np.uint8]) -> Tensor:
    """Scales bytes to [0, 1]."""
    return torch.from_numpy(np.divide(raw, np.float32(255), dtype=np.float32))


def _split(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    image_path = one_of(folder, f"{part}-images-idx3-ubyte", f"{part}-images.idx3-ubyte")
    label_path = one_of(folder, f"{part}-labels-idx1-ubyte", f"{part}-labels.idx1-ubyte")
    images, labels = read_idx(image_path), read_idx(label_path)
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise DataError(f"{image_path} and {label_path} do not fit each other: {images.shape} and {labels.shape}.")
    return pixels(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))

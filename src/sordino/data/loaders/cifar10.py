"""CIFAR-10 in its three forms: the binary one, the python one, and a compact loss-free .npz."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.data.loaders.mnist import pixels
from sordino.data.records import Records
from sordino.errors import DataError

_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
_TEST = ("test_batch",)
_RECORD_BYTES = 1 + 3 * 32 * 32
_SAFE = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
}

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def cifar10(folder: Path) -> Records:
    """Returns images `[n, 3, 32, 32]` with channels R, G, B in [0, 1]."""
    return Records(*_join(folder, _TRAIN), *_join(folder, _TEST), classes=10)


def _join(folder: Path, names: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    batches = [_read(folder, name) for name in names]
    raw = np.concatenate([images for images, _ in batches])
    return pixels(np.ascontiguousarray(raw)), torch.from_numpy(np.concatenate([labels for _, labels in batches]))


def _read(folder: Path, name: str) -> Batch:
    forms = {f"{name}.bin": _binary, name: _python, f"{name}.npz": _compact}
    for file, reader in forms.items():
        if (folder / file).is_file():
            return reader(folder / file)
    raise DataError(f"{folder} lacks {name} (as .bin, as python pickle, or as .npz); unpack the whole archive there.")


def _binary(path: Path) -> Batch:
    data = np.fromfile(path, np.uint8)
    if not len(data) or len(data) % _RECORD_BYTES:
        raise DataError(f"{path} has {len(data)} bytes, not a multiple of {_RECORD_BYTES}; get it again.")
    records = data.reshape(-1, _RECORD_BYTES)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


def _python(path: Path) -> Batch:
    try:
        with path.open("rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
        images, labels = np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"], np.int64)
        return images.reshape(len(labels), 3, 32, 32), labels
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(f"{path} is not a CIFAR-10 batch ({error}); get it again from its source.") from None


def _compact(path: Path) -> Batch:
    try:
        with np.load(path, allow_pickle=False) as file:
            delta, labels = file["delta"], file["labels"].astype(np.int64)
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a compact CIFAR-10 batch ({error}); get it again.") from None
    # Stored as differences along rows and columns, with red and blue relative to green, all modulo 256.
    planes = delta.cumsum(2, dtype=np.uint8).cumsum(3, dtype=np.uint8)
    planes[0] += planes[1]
    planes[2] += planes[1]
    return planes.transpose(1, 0, 2, 3), labels


class _ArraysOnly(pickle.Unpickler):
    """Unpickles numpy arrays and plain containers; anything that could run code is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _SAFE:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not an array")

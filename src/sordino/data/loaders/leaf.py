"""LEAF's json files (FEMNIST and whatever else is written that way), one owner for each user."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sordino.data.records import Records
from sordino.errors import DataError

LeafPart = tuple[Tensor, Tensor, list[str]]


def leaf(folder: Path, classes: int = 0, image: bool = True) -> Records:
    """Returns the users' records from `train/*.json` and `test/*.json`.

    Args:
        folder: what LEAF's preprocess.sh calls `data`: it has the folders `train` and `test`.
        classes: the number of classes, if known; else the largest label + 1.
        image: whether records whose length is a square number are images `[1, side, side]`.
    """
    (train_x, train_y, owners), (test_x, test_y, _) = _part(folder / "train"), _part(folder / "test")
    if train_x.shape[1] != test_x.shape[1]:
        raise DataError(f"{folder}: training records have {train_x.shape[1]} numbers, test records {test_x.shape[1]}.")
    side = math.isqrt(train_x.shape[1])
    if image and side * side == train_x.shape[1]:
        train_x, test_x = train_x.view(-1, 1, side, side), test_x.view(-1, 1, side, side)
    known = classes or 1 + max(int(train_y.max()), int(test_y.max()))
    return Records(train_x, train_y, test_x, test_y, known, np.array(owners))


def femnist(folder: Path) -> Records:
    """Returns FEMNIST: images `[1, 28, 28]`, 62 classes, the writer as owner."""
    return leaf(folder, classes=62)


def _part(folder: Path) -> LeafPart:
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise DataError(
            f"{folder} has no .json files; run LEAF's preprocess.sh with `-t sample` and copy its data here."
        )
    x, y, owners = [], [], []
    for path in paths:
        for user, features, labels in _users(path):
            x.append(features)
            y.append(labels)
            owners += [user] * len(labels)
    return torch.cat(x), torch.cat(y), owners


def _users(path: Path) -> list[tuple[str, Tensor, Tensor]]:
    try:
        table = json.loads(path.read_text())["user_data"]
        return [(user, *_records(path, user, data)) for user, data in table.items() if len(data["y"])]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not LEAF json with user_data → user → x, y ({error!r}); write it again.") from None


def _records(path: Path, user: str, data: dict[str, list[float]]) -> tuple[Tensor, Tensor]:
    try:
        x, y = torch.tensor(data["x"], dtype=torch.float32), torch.tensor(data["y"], dtype=torch.int64)
    except (ValueError, TypeError):
        raise DataError(f"{path}: user {user} has records that are not lists of numbers of one length.") from None
    if x.dim() != 2 or len(x) != len(y):
        raise DataError(f"{path}: user {user} has {len(x)} inputs and {len(y)} labels; they must be as many.")
    if not torch.isfinite(x).all():
        record = int(torch.nonzero(~torch.isfinite(x))[0, 0])
        raise DataError(f"{path}: user {user}, record {record} is not finite; remove it or fill the value in.")
    return x, y

"""scikit-learn's digits: the real data set that is always there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from sordino.data.keyed import key, shuffled
from sordino.data.records import Records

_TEST_RECORDS = 360


def digits(folder: Path) -> Records:
    """Returns 1,437 training and 360 test images of 8 × 8 pixels in [0, 1], split once and for all.

    The file lists images in runs by writer, so the split is a fixed shuffle; it depends on no library's generator.
    The folder is not used: the data comes with scikit-learn.
    """
    from sklearn.datasets import load_digits  # imported late: it takes a second, and most runs need other data

    bunch = load_digits()
    x = torch.from_numpy((bunch.images / 16.0).astype(np.float32)).unsqueeze(1)
    y = torch.from_numpy(bunch.target.astype(np.int64))
    order = torch.from_numpy(shuffled(key(0, "digits"), len(y)))
    test, train = order[:_TEST_RECORDS], order[_TEST_RECORDS:]
    return Records(x[train], y[train], x[test], y[test], classes=10)

"""What a loader returns: records with labels, and their natural owners where the data names them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Records:
    """Training and test records; `owners` names who each training record came from (writer, hospital), if known."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    owners: NDArray[np.generic] | None = None

"""The vocabulary as types: who is protected, from whom, and how noise is applied. No torch in here."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Unit = Literal["record", "client"]
Observer = Literal["server", "outsider"]
Trust = Literal["local", "distributed", "central"]
Adjacency = Literal["add_remove", "replace", "zero_out"]
Mode = Literal["certified", "faithful"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Words = NDArray[np.uint64]


def whole_part(share: float, clients: int) -> int:
    """Returns a share of so many clients in whole clients, whatever floats say.

    >>> whole_part(0.29, 100), int(0.29 * 100)
    (29, 28)
    """
    return math.floor(round(share * clients, 9))

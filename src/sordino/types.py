"""The vocabulary as types: who is protected, from whom, and how noise is applied. No torch in here."""

from __future__ import annotations

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

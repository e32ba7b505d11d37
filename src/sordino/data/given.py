"""What somebody says of their own arrays: whose records they are, what is set aside, how many classes there are."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.data.records import require_owners
from sordino.errors import DataError
from sordino.printable import quoted


def owners_of(name: str, clients: Any, records: int) -> tuple[int | None, NDArray[Any] | None]:
    """Returns how many clients there are to be, or else the owner of each record; neither where each is its own."""
    if isinstance(clients, (int, np.integer)) and not isinstance(clients, bool):
        return int(clients), None
    if clients is None:
        return None, None
    owners = np.asarray(clients)
    if owners.ndim != 1:
        raise DataError(f"{name}: clients must be a whole number, or name one owner for each record.")
    if len(owners) != records:
        raise DataError(f"{name}: {len(owners)} owners for {records} records; give one owner for each record.")
    require_owners(name, owners)
    return None, owners


def test_of(name: str, test: Any) -> float | tuple[Any, Any]:
    """Returns the share that is set aside for testing, or the test records themselves."""
    if isinstance(test, (tuple, list)) and len(test) == 2:
        return test[0], test[1]
    if test is None or test is False:
        return 0.0
    if isinstance(test, (int, float, np.number)) and not isinstance(test, bool):
        if not 0 <= test < 1:
            raise DataError(f"{name}: test is {test}: give a share of the records in [0, 1).")
        return float(test)
    raise DataError(f"{name}: test is {quoted(test)}: give a share, a pair (x, y), or None.")


def require_classes(name: str, classes: Any) -> int | None:
    """Returns how many classes somebody says that there are: 0 for numbers to predict, None where nothing is said."""
    try:
        count = None if classes is None else operator.index(int(classes) if isinstance(classes, float) else classes)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if count is not None and (count < 0 or count == 1 or isinstance(classes, bool) or count != classes):
        raise DataError(
            f"{name}: classes is {quoted(classes)}: give how many there are (2 or more), or 0 where a number is to be "
            "predicted."
        )
    return count

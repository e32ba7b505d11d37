"""NaN and infinity are refused where data enters, by name and place."""

from __future__ import annotations

import torch
from torch import Tensor

from sordino.errors import DataError

_ROWS_AT_ONCE = 8192


def require_finite(name: str, x: Tensor) -> None:
    """Raises a DataError that names the first record and feature that is NaN or infinite.

    **Edge cases**: integer tensors are always finite; an empty tensor is.
    """
    if not x.is_floating_point():
        return
    for start in range(0, len(x), _ROWS_AT_ONCE):
        rows = x[start : start + _ROWS_AT_ONCE].flatten(1) if x.dim() > 1 else x[start : start + _ROWS_AT_ONCE, None]
        # A finite sum proves the block finite without a mask or a copy; one that overflows is searched as well.
        if torch.isfinite(rows.sum()):
            continue
        bad = torch.nonzero(~torch.isfinite(rows))
        if len(bad):
            row, column = (int(i) for i in bad[0])
            raise DataError(
                f"{name}: record {start + row}, feature {column} is {float(rows[row, column])}; "
                "remove the record or fill the value in."
            )

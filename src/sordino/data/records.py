"""Records with labels, and their natural owners where the data names them: what every loader returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sordino.data.keyed import shuffled
from sordino.errors import DataError


@dataclass(frozen=True, eq=False)
class Records:
    """Training and test records; `owners` names who each training record came from (writer, hospital), if known."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    owners: NDArray[np.generic] | None = None
    columns: tuple[str, ...] = ()
    """Names of the features, where they have any."""
    coded: int = 0
    """How many features, the last ones, stand for words: ones and zeros, which no range scales."""


def inputs(x: Tensor | ArrayLike) -> Tensor:
    """Returns inputs as float32; bytes (uint8) are pixels, and are scaled to [0, 1] as in every loader.

    Whole numbers of 16 bits or more stay whole (int64), for models that look them up; a model without embeddings is
    given them as float32 all the same (`models.suited`).
    """
    tensor = x.cpu() if isinstance(x, Tensor) else _numbers(x)
    if tensor.layout != torch.strided:
        raise DataError("inputs are a sparse tensor: call to_dense() on them first.")
    if not tensor.dim() or tensor.is_complex():
        raise DataError("inputs must be real numbers, one row a record: give an array of at least one dimension.")
    if tensor.dtype == torch.uint8:
        return tensor.to(torch.float32) / 255
    return tensor.to(torch.int64 if tensor.dtype in (torch.int16, torch.int32, torch.int64) else torch.float32)


def _numbers(x: ArrayLike) -> Tensor:
    try:
        return torch.as_tensor(np.asarray(x))
    except (TypeError, ValueError):
        raise DataError(
            "inputs must be numbers, as many for each record: encode names, and fill gaps, first."
        ) from None


def labels(y: Tensor | ArrayLike) -> Tensor:
    """Returns integer labels as int64 and regression targets as float32."""
    if not isinstance(y, Tensor) and (np.asarray(y).dtype.kind not in "iufb" or not np.ndim(y)):
        raise DataError("labels must be numbers: give each class a number 0, 1, … first.")
    tensor = (y if isinstance(y, Tensor) else torch.as_tensor(np.asarray(y))).cpu()
    return tensor.to(torch.float32 if tensor.is_floating_point() else torch.int64)


def require_owners(name: str, owners: NDArray[np.generic]) -> None:
    """Raises a DataError where a record names no owner: it is somebody's, and would be hidden as nobody's.

    Records without a name would make up a client of their own, so that whoever they belong to is two clients.
    """
    lacking = np.array([_nameless(owner) for owner in owners.tolist()], bool)
    if lacking.any():
        raise DataError(
            f"{name}: record {int(np.flatnonzero(lacking)[0])} names no owner ({int(lacking.sum())} in all): name one "
            "owner for each record, or leave those records out."
        )


def _nameless(owner: object) -> bool:
    return not owner.strip() if isinstance(owner, str) else str(owner) in ("nan", "NaT", "None", "<NA>")


def count_classes(*targets: Tensor) -> int:
    """Returns the largest label + 1, or 0 when the targets are floats."""
    if targets[0].is_floating_point():
        return 0
    return 1 + max((int(y.max()) for y in targets if len(y)), default=0)


def split_people(
    count: int, owners: NDArray[np.generic] | None, share: float, secret: np.uint64, field: str
) -> tuple[Tensor, Tensor]:
    """Returns (kept, aside) like `split`, by owner where owners hold several records: nobody stands on both sides.

    **Edge cases**: a share that is not zero sets one owner aside at least; a single owner's records are split.
    """
    names, numbers = np.unique(np.arange(count) if owners is None else owners, return_inverse=True)
    if len(names) in (1, count):
        return split(count, share, secret, field)
    _, aside = split(len(names), max(share, 1 / len(names)) if 0 < share < 1 else share, secret, field)
    leaves = torch.from_numpy(np.isin(numbers, aside.numpy()))
    return torch.nonzero(~leaves).flatten(), torch.nonzero(leaves).flatten()


def split(count: int, share: float, secret: np.uint64, field: str) -> tuple[Tensor, Tensor]:
    """Returns (kept, aside): which records stay and which are set aside, at random but fixed by the key."""
    if not 0.0 <= share < 1.0:
        raise DataError(f"{field} is {share}: give a share of the records in [0, 1).")
    order = shuffled(secret, count)
    aside = round(share * count)
    return torch.from_numpy(np.sort(order[aside:])), torch.from_numpy(np.sort(order[:aside]))

"""Records with labels, and their natural owners where the data names them: what every loader returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sordino.data.keyed import shuffled
from sordino.errors import DataError

_LIKELY_CLASSES = 1000
"""Labels up to this are believed to be classes, however few records there are."""


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
    if isinstance(x, Tensor) and x.is_meta:
        raise DataError("inputs are a tensor on PyTorch's meta device, which holds no numbers: give one that does.")
    tensor = x.detach().cpu() if isinstance(x, Tensor) else _numbers(x)
    if tensor.layout != torch.strided:
        raise DataError("inputs are a sparse tensor: call to_dense() on them first.")
    if not tensor.dim() or tensor.is_complex():
        raise DataError("inputs must be real numbers, one row a record: give an array of at least one dimension.")
    if len(tensor) and not tensor.numel():
        raise DataError(f"inputs have the shape {tuple(tensor.shape)}: a record must hold one number at least.")
    if tensor.dtype == torch.uint8:
        return tensor.to(torch.float32) / 255
    return tensor.to(torch.int64 if tensor.dtype in (torch.int16, torch.int32, torch.int64) else torch.float32)


def _numbers(x: ArrayLike) -> Tensor:
    if hasattr(x, "toarray"):  # scipy's
        raise DataError("inputs are a sparse matrix: call toarray() on them first.")
    if np.ma.is_masked(x):
        raise DataError("inputs are an array with masked values: fill them in, or leave those records out.")
    try:
        return torch.as_tensor(_plain(np.asarray(x)))
    except (TypeError, ValueError):
        raise DataError(
            "inputs must be numbers, as many for each record: encode names, and fill gaps, first."
        ) from None


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array as PyTorch takes it: rows one after the other, in this machine's order of bytes, writable."""
    return np.require(array.astype(array.dtype.newbyteorder("="), copy=False), requirements=["C", "W"])


def labels(y: Tensor | ArrayLike) -> Tensor:
    """Returns integer labels as int64, one a record, and regression targets as float32."""
    if not isinstance(y, Tensor) and (np.asarray(y).dtype.kind not in "iufb" or not np.ndim(y)):
        raise DataError("labels must be numbers: give each class a number 0, 1, … first.")
    tensor = y.detach().cpu() if isinstance(y, Tensor) else torch.as_tensor(_plain(np.asarray(y)))
    if tensor.is_floating_point():
        return tensor.to(torch.float32)
    return tensor.to(torch.int64).flatten() if tensor.dim() == 2 and tensor.shape[1] == 1 else tensor.to(torch.int64)


def as_classes(y: Tensor) -> Tensor:
    """Returns whole numbers that are stored as floats as the classes that they are declared to be."""
    whole = y.is_floating_point() and y.dim() == 1 and bool((y == y.round()).all())
    return y.to(torch.int64) if whole else y


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
    """Returns the largest label + 1, two at least, or 0 when the targets are floats.

    Raises:
        DataError: there would be many more classes than records, which fills the memory before anything is learned.
    """
    if targets[0].is_floating_point():
        return 0
    largest = max((int(y.max()) for y in targets if len(y)), default=0)
    if largest >= max(_LIKELY_CLASSES, sum(map(len, targets))):
        raise DataError(
            f"the largest label is {largest}, which makes {largest + 1} classes of fewer records: number the classes "
            "from 0, give floats where a number is to be predicted, or say how many classes there are (classes=…)."
        )
    return max(2, 1 + largest)


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

"""A model as Flower carries it, named arrays, and the one flat row that is bounded and noised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor

from sordino.errors import ModelError
from sordino.layout import Layout


@dataclass(frozen=True)
class ArrayLayout:
    """Which arrays of a model are trained, and where each lies in the row.

    **Formal guarantees**: every float array that is not excluded is in the row, 0-d ones too, so that one norm covers
    all that a client says. Integer and boolean arrays (counters of batches) are never sent back: they stay as the
    server has them, with their type.
    """

    layout: Layout
    dtypes: tuple[str, ...]
    kept: tuple[str, ...]
    """Arrays that stay as they are."""

    @classmethod
    def of(cls, arrays: ArrayRecord, excluded: Callable[[str], bool]) -> ArrayLayout:
        """Returns the layout of a model.

        Raises:
            ModelError: nothing in it can be trained.
        """
        trained = {n: a for n, a in arrays.items() if np.dtype(a.dtype).kind == "f" and not excluded(n)}
        if not trained:
            raise ModelError("the model has no float arrays to train: send its weights, or exclude fewer of them")
        layout = Layout(tuple(trained), tuple(tuple(array.shape) for array in trained.values()))
        kept = tuple(name for name in arrays if name not in trained)
        return cls(layout, tuple(array.dtype for array in trained.values()), kept)

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return self.layout.width

    @property
    def dtype(self) -> torch.dtype:
        """The type in which the server keeps the row."""
        return torch.float64 if "float64" in self.dtypes else torch.float32

    def row(self, arrays: ArrayRecord) -> Tensor:
        """Returns a model as one flat row.

        Raises:
            ModelError: an array is missing or has another shape.
        """
        for name, shape in zip(self.layout.names, self.layout.shapes, strict=True):
            if name not in arrays or tuple(arrays[name].shape) != shape:
                raise ModelError(f"array {name!r} of shape {shape} did not come back: reply with the model as it came")
        pieces = [arrays[name].numpy().ravel() for name in self.layout.names]
        return torch.from_numpy(np.concatenate(pieces).astype(str(self.dtype).removeprefix("torch.")))

    def record(self, row: Tensor) -> ArrayRecord:
        """Returns the trained arrays, each in its own type."""
        tree = self.layout.unflatten(row)
        named = zip(self.layout.names, self.dtypes, strict=True)
        return ArrayRecord({name: Array(tree[name].numpy().astype(dtype)) for name, dtype in named})

    def whole(self, trained: ArrayRecord, before: ArrayRecord) -> ArrayRecord:
        """Returns a model in the order and types of `before`: trained arrays anew, the others as they were."""
        types = dict(zip(self.layout.names, self.dtypes, strict=True))
        return ArrayRecord(
            {
                name: Array(trained[name].numpy().astype(types[name])) if name in types else array
                for name, array in before.items()
            }
        )

"""Memory that two processes of one machine share.

It is anonymous (a memfd), so nothing is left behind when either side is killed.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import torch
from torch import Tensor

_LENT_BYTES = 2**30
"""The largest tensor that is put into shared memory as a whole."""


class SharedBuffer:
    """Memory that grows on demand and is seen by both sides."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None

    @classmethod
    def create(cls) -> SharedBuffer:
        """Returns an empty buffer, whose descriptor may be handed to a child process."""
        return cls(os.memfd_create("sordino"))

    def tensor(self, start: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Returns the tensor that lies at a place of the buffer, after growing it where it is too small."""
        end = start + math.prod(shape) * dtype.itemsize
        if self._map is None or len(self._map) < end:
            if os.fstat(self.descriptor).st_size < end:
                os.ftruncate(self.descriptor, max(end, 2 * start))
            # an old map stays alive as long as a tensor still looks at it
            self._map = mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size)
        return torch.frombuffer(self._map, dtype=dtype, count=math.prod(shape), offset=start).view(shape)


@dataclass(frozen=True)
class Loan:
    """Where another process finds a tensor as a whole."""

    owner: int
    number: int
    """Never given twice, unlike descriptors."""
    descriptor: int
    shape: tuple[int, ...]
    dtype: torch.dtype


@lru_cache(8)
def collect(loan: Loan) -> Tensor:
    """Returns what another process lent."""
    opened = os.open(f"/proc/{loan.owner}/fd/{loan.descriptor}", os.O_RDWR)
    try:
        return SharedBuffer(opened).tensor(0, loan.shape, loan.dtype)
    finally:
        os.close(opened)


class Library:
    """Copies of tensors in shared memory, for as long as the originals live."""

    def __init__(self) -> None:
        self._loans: dict[int, tuple[int, Loan] | None] = {}
        self._numbers = count()

    def lend(self, source: Tensor) -> Loan | None:
        """Returns where the tensor lies; None the first time, when nobody knows if it will be asked for again.

        **Edge cases**: a tensor that was changed in place since is copied anew; one that is too large never is.
        """
        if source.is_inference() or not source.numel() or source.numel() * source.dtype.itemsize > _LENT_BYTES:
            return None
        key = id(source)
        if key not in self._loans:
            weakref.finalize(source, self._forget, key)
            self._loans[key] = None
            return None
        version, loan = self._loans[key] or (-1, None)
        if loan is None or version != source._version:
            loan = self._copy(source)
            self._close(key)
            self._loans[key] = source._version, loan
        return loan

    def _copy(self, source: Tensor) -> Loan:
        buffer = SharedBuffer.create()
        buffer.tensor(0, tuple(source.shape), source.dtype).copy_(source)
        return Loan(os.getpid(), next(self._numbers), buffer.descriptor, tuple(source.shape), source.dtype)

    def _forget(self, key: int) -> None:
        self._close(key)
        del self._loans[key]

    def _close(self, key: int) -> None:
        kept = self._loans[key]
        if kept is not None:
            os.close(kept[1].descriptor)

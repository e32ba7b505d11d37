"""Messages between two processes of one machine: small parts through a socket, arrays through shared memory.

The memory is anonymous (a memfd), so nothing is left behind when either side is killed.
"""

from __future__ import annotations

import io
import math
import mmap
import os
import pickle
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sordino.types import IntArray

_ALIGNMENT = 64
"""Arrays start where the tensor library would let them start, so that it computes the same bits on either side."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Some rows of a tensor, which arrive on the other side as a tensor of their own."""

    source: Tensor
    records: IntArray


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
        if os.fstat(self.descriptor).st_size < end:
            os.ftruncate(self.descriptor, max(end, 2 * start))
        if self._map is None or len(self._map) < end:
            # an old map stays alive as long as a tensor still looks at it
            self._map = mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size)
        return torch.frombuffer(self._map, dtype=dtype, count=math.prod(shape), offset=start).view(shape)


class Channel:
    """One end of a two-way channel.

    **Edge cases**: tensors and arrays that were received lie in shared memory, and hold until the other side sends
    again. A side that has gone away raises `EOFError` or `OSError`.
    """

    def __init__(self, connection: Connection, outgoing: SharedBuffer, incoming: SharedBuffer) -> None:
        self._connection, self._outgoing, self._incoming = connection, outgoing, incoming

    def send(self, message: object) -> None:
        """Sends an object; its tensors and arrays are copied into shared memory once."""
        body = io.BytesIO()
        _Packer(body, self._outgoing).dump(message)
        self._connection.send_bytes(body.getbuffer())

    def receive(self) -> Any:
        """Waits for the other side's next message."""
        return _Unpacker(io.BytesIO(self._connection.recv_bytes()), self._incoming).load()

    def waiting(self, patience: float = 0.0) -> bool:
        """Whether a message, or the end, has arrived or does so in time."""
        return self._connection.poll(patience)

    def close(self) -> None:
        """Ends the conversation: the other side's `receive` raises `EOFError`."""
        self._connection.close()


class _Packer(pickle.Pickler):
    """Puts tensors and arrays into a buffer, one after the other, and notes their places in the message."""

    def __init__(self, body: io.BytesIO, buffer: SharedBuffer) -> None:
        super().__init__(body, protocol=5)
        self._buffer, self._end = buffer, 0

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is Selection:
            shape, dtype = (len(obj.records), *obj.source.shape[1:]), obj.source.dtype
            target, place = self._reserve(shape, dtype)
            torch.index_select(obj.source, 0, torch.from_numpy(obj.records), out=target)
            return "tensor", place, shape, dtype
        if type(obj) is np.ndarray and obj.dtype != object and obj.size:
            kind, obj = "array", torch.from_numpy(np.ascontiguousarray(obj))
        elif type(obj) is Tensor and obj.numel():
            kind, obj = "tensor", obj.detach()
        else:
            return None
        target, place = self._reserve(tuple(obj.shape), obj.dtype)
        target.copy_(obj)
        return kind, place, tuple(obj.shape), obj.dtype

    def _reserve(self, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, int]:
        place = self._end
        self._end += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        return self._buffer.tensor(place, shape, dtype), place


class _Unpacker(pickle.Unpickler):
    def __init__(self, body: io.BytesIO, buffer: SharedBuffer) -> None:
        super().__init__(body)
        self._buffer = buffer

    def persistent_load(self, pid: Any) -> Any:
        kind, place, shape, dtype = pid
        tensor = self._buffer.tensor(place, shape, dtype)
        return tensor if kind == "tensor" else tensor.numpy()

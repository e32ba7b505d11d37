"""Messages between two processes of one machine: small parts through a socket, arrays through shared memory.

The memory is anonymous (a memfd), so nothing is left behind when either side is killed.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

_ALIGNMENT = 64
"""Arrays start where the tensor library would let them start, so that it computes the same bits on either side."""


class SharedBuffer:
    """Memory that grows on demand and is seen by both sides."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None

    @classmethod
    def create(cls) -> SharedBuffer:
        """Returns an empty buffer, whose descriptor may be handed to a child process."""
        return cls(os.memfd_create("sordino"))

    def view(self, size: int) -> memoryview:
        """Returns the first `size` bytes, after growing the buffer if it is smaller."""
        if self._map is None or len(self._map) < size:
            if os.fstat(self.descriptor).st_size < size:
                os.ftruncate(self.descriptor, size)
            # an old map stays alive as long as an array still looks at it
            self._map = mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size)
        return memoryview(self._map)[:size]


class Channel:
    """One end of a two-way channel.

    **Edge cases**: arrays that were received are views of shared memory, valid until the other side sends again.
    A side that has gone away raises `EOFError` or `OSError`.
    """

    def __init__(self, connection: Connection, outgoing: SharedBuffer, incoming: SharedBuffer) -> None:
        self._connection, self._outgoing, self._incoming = connection, outgoing, incoming

    def send(self, message: object) -> None:
        """Sends an object; its arrays and tensors are copied into shared memory once."""
        body, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
        _Pickler(body, protocol=5, buffer_callback=buffers.append).dump(message)
        raw = [buffer.raw() for buffer in buffers]
        places, size = _places([view.nbytes for view in raw])
        if size:
            shared = self._outgoing.view(size)
            for view, (start, end) in zip(raw, places, strict=True):
                shared[start:end] = view
        self._connection.send_bytes(pickle.dumps((places, size, body.getvalue())))

    def receive(self) -> Any:
        """Waits for the other side's next message."""
        places, size, body = pickle.loads(self._connection.recv_bytes())
        shared = self._incoming.view(size) if size else memoryview(b"")
        return pickle.loads(body, buffers=[shared[start:end] for start, end in places])

    def waiting(self, patience: float = 0.0) -> bool:
        """Whether a message, or the end, has arrived or does so in time."""
        return self._connection.poll(patience)

    def close(self) -> None:
        """Ends the conversation: the other side's `receive` raises `EOFError`."""
        self._connection.close()


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: object) -> Any:
        if type(obj) is Tensor:
            return torch.from_numpy, (obj.detach().contiguous().numpy(),)
        return NotImplemented


def _places(sizes: list[int]) -> tuple[list[tuple[int, int]], int]:
    places, start = [], 0
    for size in sizes:
        places.append((start, start + size))
        start += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, start

"""Messages between two processes of one machine: small parts through a socket, arrays through shared memory.

A tensor of which rows are asked for again and again, as of a data set, is put there whole and once; from then on only
the rows' numbers travel.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sordino.train.buffer import Library, SharedBuffer, collect
from sordino.types import IntArray

_ALIGNMENT = 64
"""Arrays start where the tensor library would let them start, so that it computes the same bits on either side."""

_LIBRARY = Library()


@dataclass(frozen=True, eq=False)
class Selection:
    """Some rows of tensors, the same of each; arrives with the whole tensors, or with tensors of these rows alone."""

    sources: tuple[Tensor, ...]
    records: IntArray


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


Place = tuple[int, tuple[int, ...], torch.dtype]
"""Where a tensor lies in a buffer."""


class _Packer(pickle.Pickler):
    """Puts tensors and arrays into a buffer, one after the other, and notes their places in the message."""

    def __init__(self, body: io.BytesIO, buffer: SharedBuffer) -> None:
        super().__init__(body, protocol=5)
        self._buffer, self._end = buffer, 0

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is Selection:
            return self._selection(obj.sources, torch.from_numpy(obj.records))
        if type(obj) is np.ndarray and obj.dtype != object and obj.size:
            return "array", self._put(torch.from_numpy(np.ascontiguousarray(obj)))
        if type(obj) is Tensor and obj.numel():
            return "tensor", self._put(obj.detach())
        return None

    def _selection(self, sources: Sequence[Tensor], records: Tensor) -> Any:
        loans = [_LIBRARY.lend(source) for source in sources]
        if None not in loans:
            return "lent", self._put(records), loans
        rows = []
        for source in sources:
            target, place = self._reserve((len(records), *source.shape[1:]), source.dtype)
            torch.index_select(source, 0, records, out=target)
            rows.append(place)
        return "rows", len(records), rows

    def _put(self, tensor: Tensor) -> Place:
        target, place = self._reserve(tuple(tensor.shape), tensor.dtype)
        target.copy_(tensor)
        return place

    def _reserve(self, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Place]:
        start = self._end
        self._end += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        return self._buffer.tensor(start, shape, dtype), (start, shape, dtype)


class _Unpacker(pickle.Unpickler):
    def __init__(self, body: io.BytesIO, buffer: SharedBuffer) -> None:
        super().__init__(body)
        self._buffer = buffer

    def persistent_load(self, pid: Any) -> Any:
        match pid:
            case "tensor", place:
                return self._buffer.tensor(*place)
            case "array", place:
                return self._buffer.tensor(*place).numpy()
            case "lent", place, loans:
                return Selection(tuple(collect(loan) for loan in loans), self._buffer.tensor(*place).numpy())
            case "rows", count, places:
                return Selection(tuple(self._buffer.tensor(*place) for place in places), np.arange(count))
        raise pickle.UnpicklingError(f"unknown part {pid!r}")

"""Lists by client in the messages of a secure sum: fields of one size, each with the place of whom it is about."""

from __future__ import annotations

import struct
from collections.abc import ItemsView, Iterator, Mapping
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from sordino.aggregate.secure.errors import Malformed
from sordino.aggregate.secure.wire import Reader
from sordino.types import IntArray

_U32 = struct.Struct("<I")


@cache
def line_type(size: int) -> np.dtype[np.void]:
    """How one line lies in memory, with a field of this size."""
    return np.dtype([("place", "<u4"), ("field", "u1", (size,))])


class NamedFields(Mapping[int, bytes]):
    """Fields of one size by the place of the client that each is about, in the bytes that they came in.

    A server holds a million of them: they are checked all at once, and taken apart when they are asked for.
    """

    def __init__(self, lines: bytes, size: int) -> None:
        self.lines = lines
        self._size = size

    @cached_property
    def table(self) -> NDArray[np.void]:
        """All lines, with columns `place` and `field`."""
        return np.frombuffer(self.lines, line_type(self._size))

    @property
    def places(self) -> IntArray:
        """Whom the fields are about."""
        return self.table["place"].astype(np.int64)

    @property
    def fields(self) -> bytes:
        """All fields, one after the other."""
        return self.table["field"].tobytes()

    @cached_property
    def _by_place(self) -> dict[int, bytes]:
        step, lines = 4 + self._size, self.lines
        starts = range(4, len(lines), step)
        return {p: lines[at : at + self._size] for p, at in zip(self.places.tolist(), starts, strict=True)}

    def __getitem__(self, place: int) -> bytes:
        return self._by_place[place]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_place)

    def __len__(self) -> int:
        return len(self.lines) // (4 + self._size)

    def __repr__(self) -> str:
        return f"NamedFields({self._by_place})"

    def items(self) -> ItemsView[int, bytes]:
        return self._by_place.items()


def pack_named(fields: Mapping[int, bytes]) -> bytes:
    """Writes fields of one size, each with the place of the client that it is about."""
    return _U32.pack(len(fields)) + named(fields).lines


def named(fields: Mapping[int, bytes]) -> NamedFields:
    """Returns fields of one size as they are written."""
    if isinstance(fields, NamedFields):
        return fields
    lines = b"".join(_U32.pack(place) + fields[place] for place in sorted(fields))
    return NamedFields(lines, len(next(iter(fields.values()), b"")))


def parse_named(reader: Reader, size: int) -> NamedFields:
    """Reads what `pack_named` writes."""
    named = NamedFields(reader.take(reader.number() * (4 + size)), size)
    if len(named) > 1 and (named.table["place"][1:] <= named.table["place"][:-1]).any():
        raise Malformed("a list by client is not in increasing order")
    return named

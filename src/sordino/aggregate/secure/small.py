"""Small integers on the wire, close to their entropy: the removable parts of clients' noise."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from sordino.aggregate.secure.errors import Malformed
from sordino.aggregate.secure.wire import Reader
from sordino.types import IntArray


def pack_small(values: IntArray) -> bytes:
    """Writes small integers close to their entropy: the narrowest type, byte by byte, in a Huffman code."""
    size = next(size for size in (1, 2, 4, 8) if _fits(values, size))
    planes = values.astype(f"<i{size}").view(np.uint8).reshape(-1, size).T
    code = zlib.compressobj(strategy=zlib.Z_HUFFMAN_ONLY)
    return bytes([size]) + code.compress(planes.tobytes()) + code.flush()


def parse_small(reader: Reader, count: int) -> IntArray:
    """Reads so many small integers off the end of a message; a stream of any other length is refused unexpanded."""
    size = reader.take(1)[0]
    if size not in (1, 2, 4, 8):
        raise Malformed(f"a removable part in integers of {size} bytes is none that this version writes")
    code = zlib.decompressobj()
    try:
        data = code.decompress(reader.rest(), count * size + 1)
    except zlib.error as error:
        raise Malformed("a removable part cannot be expanded: it was damaged") from error
    if len(data) != count * size or not code.eof or code.unused_data:
        raise Malformed(f"a removable part does not hold {count} entries")
    planes: NDArray[np.uint8] = np.frombuffer(data, np.uint8).reshape(size, count)
    return np.ascontiguousarray(planes.T).view(f"<i{size}").ravel().astype(np.int64)


def _fits(values: IntArray, size: int) -> bool:
    kind = np.iinfo(f"i{size}")
    return len(values) == 0 or (kind.min <= int(values.min()) and int(values.max()) <= kind.max)

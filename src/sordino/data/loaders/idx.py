"""The IDX format of MNIST and its kin, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.errors import DataError

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> NDArray[Any]:
    """Returns the array that an IDX file holds.

    **Edge cases**: a damaged archive, a foreign file, and a file that is shorter or longer than its header says are
    refused by name.
    """
    data = _bytes(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _DTYPES:
        raise DataError(f"{path} is not an IDX file; get it again from its source.")
    dtype, rank = np.dtype(_DTYPES[data[2]]), data[3]
    header = 4 + 4 * rank
    if len(data) < header:
        raise DataError(f"{path} ends inside its header; get it again from its source.")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", rank, 4))
    expected = header + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if len(data) != expected:
        raise DataError(f"{path} has {len(data)} bytes where its header promises {expected}; get it again.")
    return np.frombuffer(data, dtype, offset=header).reshape(shape)


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is a damaged gzip archive ({error}); get it again from its source.") from None

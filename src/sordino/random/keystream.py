"""A key's random words: AES-256 in counter mode, and further bits for any of them by a keyed hash."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from sordino.types import FloatArray, IntArray

KEY_BYTES = 32

_ZEROS = memoryview(bytes(2**18))


def named_key(name: str) -> bytes:
    """Returns the key of a named stream, for simulation: the same name, the same key."""
    return hashlib.blake2b(name.encode(), digest_size=KEY_BYTES, person=b"sordino.key").digest()


def fresh_key() -> bytes:
    """Returns a key that the operating system drew, for deployment."""
    return secrets.token_bytes(KEY_BYTES)


@dataclass(frozen=True)
class Keystream:
    """The words that belong to one key, in order, and what follows each of them.

    **Formal guarantees**: without the key, words and further bits cannot be told from uniform ones by any attack that
    breaks neither AES-256 nor BLAKE2b. The same key gives the same words, however many are asked for at a time.
    **Edge cases**: a key serves one draw of noise; whoever uses it twice repeats the noise.
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"a key of {len(self.key)} bytes cannot start a keystream: it takes {KEY_BYTES}")

    @cached_property
    def _cipher(self) -> CipherContext:
        return Cipher(algorithms.AES(self.key), modes.CTR(bytes(16))).encryptor()

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Fills a contiguous array with the next words."""
        room = words.view(np.uint8).reshape(-1)
        for first in range(0, room.size, len(_ZEROS)):
            piece = room[first : first + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: piece.size], piece.data)

    def further(self, place: int, step: int) -> int:
        """Returns 64 bits that follow the word at this place, and the 64·step bits after it."""
        name = place.to_bytes(8, "little") + step.to_bytes(8, "little")
        digest = hashlib.blake2b(name, digest_size=8, key=self.key, person=b"sordino.further").digest()
        return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class Keystreams:
    """The words of several rows, each from a key of its own."""

    keys: Sequence[bytes] = field(repr=False)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def _streams(self) -> list[Keystream]:
        return [Keystream(key) for key in self.keys]

    def fill(self, words: NDArray[np.uint64], rows: IntArray, column: int) -> None:
        """Fills words `[rows, n]` with the rows' words from this column on; each row is asked in order, in pairs."""
        for row, into in zip(rows.tolist(), words, strict=True):
            self._streams[row].fill(into)

    def further(self, row: int, place: int, step: int) -> int:
        """Returns 64 bits that follow the row's word at this place, and the 64·step bits after it."""
        return self._streams[row].further(place, step)


@dataclass(frozen=True)
class SharedKeystream:
    """The words of many rows from one key, for audits of crowds: row and place are the cipher's counter.

    **Formal guarantees**: a block cipher maps distinct counters to distinct blocks, so rows of different numbers share
    no word; rows of one number share all of them.
    """

    key: bytes = field(repr=False)
    rows: IntArray
    """The number of each row."""

    def __len__(self) -> int:
        return len(self.rows)

    def fill(self, words: NDArray[np.uint64], rows: IntArray, column: int) -> None:
        """Fills words `[rows, n]` with the rows' words from this column on, which is even."""
        pairs = -(-words.shape[1] // 2)
        counters = np.empty((len(rows), pairs, 2), np.uint64)
        counters[:, :, 0] = self.rows[rows].astype(np.uint64)[:, None]
        counters[:, :, 1] = np.arange(column // 2, column // 2 + pairs, dtype=np.uint64)
        cipher = Cipher(algorithms.AES(self.key), modes.ECB()).encryptor()  # of counters: counter mode
        drawn = np.frombuffer(cipher.update(counters.tobytes()), np.uint64).reshape(len(rows), -1)
        words[:] = drawn[:, : words.shape[1]]

    def further(self, row: int, place: int, step: int) -> int:
        """Returns 64 bits that follow the row's word at this place, and the 64·step bits after it."""
        own = hashlib.blake2b(
            int(self.rows[row]).to_bytes(8, "little", signed=True), digest_size=KEY_BYTES, key=self.key
        ).digest()
        return Keystream(own).further(place, step)


Keys = Sequence[bytes] | SharedKeystream
"""What the noise of several rows follows from: a key a row, or one for an audit's crowd."""


def uniform_rows(
    streams: Keystreams | SharedKeystream, width: int, first: int = 0
) -> Callable[[IntArray, int], FloatArray]:
    """Returns the function that draws rows of numbers from U[0, 1), 53 bits each, counted from row `first` on.

    It takes the rows and which attempt this is; a row takes its attempts in order, 0, 1, 2, …
    """
    even = width + width % 2

    def draw(rows: IntArray, attempt: int) -> FloatArray:
        words = np.empty((len(rows), even), np.uint64)
        streams.fill(words, rows + first, attempt * even)
        return (words[:, :width] >> np.uint64(11)).astype(np.float64) * 2.0**-53

    return draw


def streams_of(keys: Keys) -> Keystreams | SharedKeystream:
    """Returns the words that belong to keys."""
    return keys if isinstance(keys, SharedKeystream) else Keystreams(keys)

"""What the messages of a secure sum say. Clients are named by their place in the roster once there is one."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sordino.aggregate.integers import UIntArray, word
from sordino.aggregate.secure.errors import Malformed, WrongVector
from sordino.aggregate.secure.keys import KEY, SIGNATURE, TAG
from sordino.aggregate.secure.terms import Terms
from sordino.aggregate.secure.wire import Reader, pack_flags, pack_many
from sordino.types import BoolArray, IntArray

SECRET = 32
SEALED = 2 * SECRET + TAG

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_VECTOR = struct.Struct("<BI")


@dataclass(frozen=True)
class Advertise:
    """Client: the public keys of this round, and the identity that signs for them."""

    share_key: bytes
    mask_key: bytes
    identity: bytes

    def pack(self) -> bytes:
        return self.share_key + self.mask_key + self.identity

    @classmethod
    def parse(cls, reader: Reader) -> Advertise:
        message = cls(reader.take(KEY), reader.take(KEY), reader.take(KEY))
        reader.finish()
        return message


@dataclass(frozen=True)
class Entry:
    """One line of the roster: what a client advertised, with its signature."""

    client: int
    keys: Advertise
    signature: bytes

    def pack(self) -> bytes:
        return _U64.pack(self.client) + self.keys.pack() + self.signature

    @classmethod
    def parse(cls, line: bytes) -> Entry:
        reader = Reader(line)
        client, keys = reader.identifier(), Advertise.parse(Reader(reader.take(3 * KEY)))
        return cls(client, keys, reader.take(SIGNATURE))


@dataclass(frozen=True)
class Roster:
    """Server: everybody's keys, in increasing order of their ids."""

    entries: tuple[Entry, ...]

    def pack(self) -> bytes:
        return pack_many([entry.pack() for entry in self.entries])

    @classmethod
    def parse(cls, reader: Reader) -> Roster:
        entries = tuple(Entry.parse(line) for line in reader.many(8 + 3 * KEY + SIGNATURE))
        reader.finish()
        if any(a.client >= b.client for a, b in pairwise(entries)):
            raise Malformed("the roster's clients are not in increasing order")
        return cls(entries)


@dataclass(frozen=True)
class Shares:
    """Client: a commitment to its self-mask seed, and sealed shares for its neighbours in their order."""

    commitment: bytes
    sealed: list[bytes]

    def pack(self) -> bytes:
        return self.commitment + pack_many(self.sealed)

    @classmethod
    def parse(cls, reader: Reader) -> Shares:
        message = cls(reader.take(SECRET), reader.many(SEALED))
        reader.finish()
        return message


@dataclass(frozen=True)
class Inbox:
    """Server: who shared their secrets, and the shares that were sealed for this client, in order of their senders."""

    sharers: BoolArray
    sealed: list[bytes]

    def pack(self) -> bytes:
        return pack_flags(self.sharers) + pack_many(self.sealed)

    @classmethod
    def parse(cls, reader: Reader) -> Inbox:
        message = cls(reader.flags(), reader.many(SEALED))
        reader.finish()
        return message


@dataclass(frozen=True)
class Masked:
    """Client: its masked vector, each entry in as many whole bytes as the modulus needs."""

    vector: UIntArray

    def pack(self, terms: Terms) -> bytes:
        size = (terms.modulus_bits + 7) // 8
        columns = self.vector.astype(self.vector.dtype.newbyteorder("<"), copy=False).view(np.uint8)
        data = columns.reshape(len(self.vector), -1)[:, :size].tobytes()
        return _VECTOR.pack(terms.modulus_bits, len(self.vector)) + data

    @classmethod
    def parse(cls, reader: Reader, terms: Terms) -> Masked:
        bits, width = _VECTOR.unpack(reader.take(_VECTOR.size))
        size, data = (terms.modulus_bits + 7) // 8, np.frombuffer(reader.rest(), np.uint8)
        if bits != terms.modulus_bits or width != terms.width or len(data) != width * size:
            raise WrongVector(
                f"a vector of {width} entries modulo 2^{bits} in {len(data)} bytes came where {terms.width} entries "
                f"modulo 2^{terms.modulus_bits} were agreed"
            )
        kind = np.dtype(word(bits))
        if kind.itemsize == size:
            vector = data.view(kind.newbyteorder("<"))
        else:
            columns = np.zeros((width, kind.itemsize), np.uint8)
            columns[:, :size] = data.reshape(width, size)
            vector = columns.view(kind.newbyteorder("<")).ravel()
        if bits % 8 and int(vector.max()) >> bits:
            raise WrongVector(f"a vector has entries of 2^{bits} and more: they must be residues modulo 2^{bits}")
        return cls(vector)


@dataclass(frozen=True)
class Survivors:
    """Server: whose masked vectors arrived."""

    alive: BoolArray

    def pack(self) -> bytes:
        return pack_flags(self.alive)

    @classmethod
    def parse(cls, reader: Reader) -> Survivors:
        message = cls(reader.flags())
        reader.finish()
        return message


@dataclass(frozen=True)
class Consent:
    """Client: a fingerprint of the roster, the sharers and the survivors as it was told them."""

    view: bytes

    def pack(self) -> bytes:
        return self.view

    @classmethod
    def parse(cls, reader: Reader) -> Consent:
        message = cls(reader.take(SECRET))
        reader.finish()
        return message


@dataclass(frozen=True)
class Request:
    """Server: whose self-mask seeds and whose mask keys it needs, and the consents of the client's neighbours."""

    seeds_of: BoolArray
    keys_of: BoolArray
    consents: Mapping[int, bytes]

    def pack(self) -> bytes:
        return pack_flags(self.seeds_of) + pack_flags(self.keys_of) + pack_named(self.consents)

    @classmethod
    def parse(cls, reader: Reader) -> Request:
        message = cls(reader.flags(), reader.flags(), parse_named(reader, SIGNATURE))
        reader.finish()
        return message


@dataclass(frozen=True)
class Unmask:
    """Client: its shares of the survivors' seeds and of the vanished clients' keys, and what is removable."""

    seeds: Mapping[int, bytes]
    keys: Mapping[int, bytes]
    removable: IntArray | None = None

    def pack(self) -> bytes:
        removable = b"" if self.removable is None else pack_small(self.removable)
        return pack_named(self.seeds) + pack_named(self.keys) + removable

    @classmethod
    def parse(cls, reader: Reader, terms: Terms) -> Unmask:
        seeds, keys = parse_named(reader, SECRET), parse_named(reader, SECRET)
        removable = parse_small(reader, terms.width) if terms.reveals else None
        reader.finish()
        return cls(seeds, keys, removable)


def pack_named(fields: Mapping[int, bytes]) -> bytes:
    """Writes fields of one size, each with the place of the client that it is about."""
    return pack_many([_U32.pack(place) + fields[place] for place in sorted(fields)])


def parse_named(reader: Reader, size: int) -> dict[int, bytes]:
    """Reads what `pack_named` writes."""
    lines = reader.many(4 + size)
    places = [int(_U32.unpack(line[:4])[0]) for line in lines]
    if any(a >= b for a, b in pairwise(places)):
        raise Malformed("a list of shares or consents is not in increasing order")
    return {place: line[4:] for place, line in zip(places, lines, strict=True)}


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

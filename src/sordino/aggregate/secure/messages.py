"""What the messages of a secure sum say. Clients are named by their place in the roster once there is one."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sordino.aggregate.integers import UIntArray, word
from sordino.aggregate.secure.errors import Malformed, WrongVector
from sordino.aggregate.secure.keys import KEY, SIGNATURE, TAG
from sordino.aggregate.secure.named import pack_named, parse_named
from sordino.aggregate.secure.small import pack_small, parse_small
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.wire import Reader, pack_flags, pack_many
from sordino.types import BoolArray, IntArray

SECRET = 16
DIGEST = 32
SEALED = KEY + 2 * SECRET + TAG
"""A box: the public half of a key that was made for it, and both shares under it."""

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_VECTOR = struct.Struct("<BI")
_ENTRY = np.dtype([("client", "<u8"), ("keys", "u1", (2, KEY)), ("signature", "u1", (SIGNATURE,))])
_LARGEST_KEY = bytes([0xED]) + b"\xff" * 30 + b"\x7f"  # the field's prime, to which no canonical key reaches


@dataclass(frozen=True)
class Advertise:
    """Client: the public keys of this round."""

    share_key: bytes
    mask_key: bytes

    def pack(self) -> bytes:
        return self.share_key + self.mask_key

    @classmethod
    def parse(cls, reader: Reader) -> Advertise:
        message = cls(reader.take(KEY), reader.take(KEY))
        reader.finish()
        return message


@dataclass(frozen=True)
class RosterEntry:
    """One line of the roster: what a client advertised, with its signature."""

    client: int
    keys: Advertise
    signature: bytes

    def pack(self) -> bytes:
        return _U64.pack(self.client) + self.keys.pack() + self.signature


@dataclass(frozen=True)
class Roster:
    """Server: everybody's keys, in increasing order of their ids. Lines are read when they are asked for."""

    lines: bytes

    @classmethod
    def of(cls, entries: list[RosterEntry]) -> Roster:
        """Returns the roster with these lines."""
        return cls(b"".join(entry.pack() for entry in entries))

    def pack(self) -> bytes:
        return _U32.pack(self.size) + self.lines

    @classmethod
    def parse(cls, reader: Reader) -> Roster:
        roster = cls(reader.take(reader.number() * _ENTRY.itemsize))
        reader.finish()
        if (roster.clients[1:] <= roster.clients[:-1]).any():
            raise Malformed("the roster's clients are not in increasing order")
        return roster

    @property
    def size(self) -> int:
        """How many clients it has."""
        return len(self.lines) // _ENTRY.itemsize

    @cached_property
    def _table(self) -> NDArray[np.void]:
        return np.frombuffer(self.lines, _ENTRY)

    @property
    def clients(self) -> NDArray[np.uint64]:
        """Everybody's id."""
        return self._table["client"]

    @property
    def proper(self) -> bool:
        """Whether all keys are canonical and no two of them are the same."""
        keys = np.ascontiguousarray(self._table["keys"]).reshape(-1, KEY)
        low, middle, top = keys[:, 0] >= _LARGEST_KEY[0], (keys[:, 1:31] == 0xFF).all(1), keys[:, 31]
        whole = keys.tobytes()
        distinct = {whole[start : start + KEY] for start in range(0, len(whole), KEY)}
        return not ((top >= 0x80) | (low & middle & (top == 0x7F))).any() and len(distinct) == len(keys)

    def mask_key(self, place: int) -> bytes:
        """Returns the second key of the line at a place."""
        start = place * _ENTRY.itemsize + 8 + KEY
        return self.lines[start : start + KEY]

    def entry(self, place: int) -> RosterEntry:
        """Returns the line at a place."""
        start = place * _ENTRY.itemsize
        line = self.lines[start : start + _ENTRY.itemsize]
        keys = Advertise(line[8 : 8 + KEY], line[8 + KEY : 8 + 2 * KEY])
        return RosterEntry(int(_U64.unpack(line[:8])[0]), keys, line[8 + 2 * KEY :])


@dataclass(frozen=True)
class Shares:
    """Client: commitments to its self-mask seed and to every holder's shares, and the shares sealed for the others."""

    commitment: bytes
    digests: Mapping[int, bytes]
    """By holder, itself included: 16 bytes for its share of the seed and 16 for that of the key."""
    sealed: list[bytes]
    """For the holders in their order, without itself."""

    def pack(self) -> bytes:
        return self.commitment + pack_named(self.digests) + pack_many(self.sealed)

    @classmethod
    def parse(cls, reader: Reader) -> Shares:
        message = cls(reader.take(DIGEST), parse_named(reader, DIGEST), reader.many(SEALED))
        reader.finish()
        return message


@dataclass(frozen=True)
class Inbox:
    """Server: who shared their secrets, and what was sealed for this client: digests and box, by their sender."""

    sharers: BoolArray
    boxes: Mapping[int, bytes]

    def pack(self) -> bytes:
        return pack_flags(self.sharers) + pack_named(self.boxes)

    @staticmethod
    def pack_all(sharers: BoolArray, boxes: Mapping[int, Mapping[int, bytes]]) -> dict[int, bytes]:
        """Returns everybody's inbox, given everybody's boxes."""
        flags = pack_flags(sharers)
        return {recipient: flags + pack_named(some) for recipient, some in boxes.items()}

    @classmethod
    def parse(cls, reader: Reader) -> Inbox:
        message = cls(reader.flags(), parse_named(reader, DIGEST + SEALED))
        reader.finish()
        return message


@dataclass(frozen=True)
class Masked:
    """Client: its masked vector, each entry in as many bits as the modulus has; and its complaints.

    A complaint says that a sender's box cannot be opened, or does not hold what its digests say: by sender, the digest
    of what came, and a signature over both.
    """

    vector: UIntArray
    complaints: Mapping[int, bytes]

    def pack(self, terms: SumTerms) -> bytes:
        head = pack_named(self.complaints) + _VECTOR.pack(terms.modulus_bits, len(self.vector))
        return b"".join((head, *_pack_residues(self.vector, terms.modulus_bits)))

    @classmethod
    def parse(cls, reader: Reader, terms: SumTerms) -> Masked:
        complaints = parse_named(reader, DIGEST + SIGNATURE)
        bits, width = _VECTOR.unpack(reader.take(_VECTOR.size))
        whole, rest = divmod(terms.modulus_bits, 8)
        data = np.frombuffer(reader.rest(), np.uint8)
        if bits != terms.modulus_bits or width != terms.width or len(data) != width * whole + (width * rest + 7) // 8:
            raise WrongVector(
                f"a vector of {width} entries modulo 2^{bits} in {len(data)} bytes came where {terms.width} entries "
                f"modulo 2^{terms.modulus_bits} were agreed"
            )
        return cls(_parse_residues(data, bits, width), complaints)


def _pack_residues(vector: UIntArray, bits: int) -> Iterator[memoryview]:
    """Yields residues modulo 2^bits in that many bits each: whole bytes first, then the bits above them."""
    whole, rest = divmod(bits, 8)
    columns = vector.astype(vector.dtype.newbyteorder("<"), copy=False).view(np.uint8).reshape(len(vector), -1)
    yield np.ascontiguousarray(columns[:, :whole]).data
    if rest:
        yield np.packbits(np.unpackbits(columns[:, whole, None], axis=1)[:, 8 - rest :]).data


def _parse_residues(data: NDArray[np.uint8], bits: int, width: int) -> UIntArray:
    """Reads what `_pack_residues` writes; the length was checked."""
    (whole, rest), kind = divmod(bits, 8), np.dtype(word(bits))
    if kind.itemsize == whole and not rest:
        return data.view(kind.newbyteorder("<"))
    columns = np.zeros((width, kind.itemsize), np.uint8)
    columns[:, :whole] = data[: width * whole].reshape(width, whole)
    if rest:
        high = np.unpackbits(data[width * whole :])
        if high[width * rest :].any():
            raise WrongVector("a vector has bits set beyond its end: it was padded")
        columns[:, whole] = np.packbits(high[: width * rest].reshape(width, rest), axis=1)[:, 0] >> 8 - rest
    return columns.view(kind.newbyteorder("<")).ravel()


@dataclass(frozen=True)
class SurvivorList:
    """Server: whose masked vectors arrived, and who complains about this client's boxes (with their signatures)."""

    alive: BoolArray
    accusers: Mapping[int, bytes]

    def pack(self) -> bytes:
        return pack_flags(self.alive) + pack_named(self.accusers)

    @classmethod
    def parse(cls, reader: Reader) -> SurvivorList:
        message = cls(reader.flags(), parse_named(reader, SIGNATURE))
        reader.finish()
        return message


@dataclass(frozen=True)
class Consent:
    """Client: its name under the story that it was told; and the keys of the boxes that others complain about.

    `names` is one signature for all; where the terms say `tagged`, a tag for each survivor in its place instead.
    """

    story: bytes
    names: bytes
    openings: Mapping[int, bytes]

    def pack(self) -> bytes:
        return self.story + _U32.pack(len(self.names)) + self.names + pack_named(self.openings)

    @classmethod
    def parse(cls, reader: Reader) -> Consent:
        message = cls(reader.take(DIGEST), reader.take(reader.number()), parse_named(reader, KEY))
        reader.finish()
        return message


@dataclass(frozen=True)
class UnmaskRequest:
    """Server: the names under the story. It cannot say which secrets it wants: they follow from the story."""

    consents: Mapping[int, bytes]
    """By client: its signature, or its tag for the one who reads this."""

    def pack(self) -> bytes:
        return pack_named(self.consents)

    @classmethod
    def parse(cls, reader: Reader, size: int = SIGNATURE) -> UnmaskRequest:
        message = cls(parse_named(reader, size))
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
    def parse(cls, reader: Reader, terms: SumTerms) -> Unmask:
        seeds, keys = parse_named(reader, SECRET), parse_named(reader, SECRET)
        removable = parse_small(reader, terms.width) if terms.reveals else None
        reader.finish()
        return cls(seeds, keys, removable)

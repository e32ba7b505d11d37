"""What the messages of a secure sum say. Clients are named by their place in the roster once there is one."""

from __future__ import annotations

import struct
from collections.abc import Mapping
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
    """Client: its masked vector, each entry in as many whole bytes as the modulus needs; and its complaints.

    A complaint says that a sender's box cannot be opened, or does not hold what its digests say: by sender, the digest
    of what came, and a signature over both.
    """

    vector: UIntArray
    complaints: Mapping[int, bytes]

    def pack(self, terms: SumTerms) -> bytes:
        size = (terms.modulus_bits + 7) // 8
        columns = self.vector.astype(self.vector.dtype.newbyteorder("<"), copy=False).view(np.uint8)
        data = np.ascontiguousarray(columns.reshape(len(self.vector), -1)[:, :size])
        head = pack_named(self.complaints) + _VECTOR.pack(terms.modulus_bits, len(self.vector))
        return b"".join((head, data.data))

    @classmethod
    def parse(cls, reader: Reader, terms: SumTerms) -> Masked:
        complaints = parse_named(reader, DIGEST + SIGNATURE)
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
        return cls(vector, complaints)


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

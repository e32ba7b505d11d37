"""How messages of a secure sum travel as bytes, version 4: fixed little-endian fields, no pickle, nothing optional.

    every message     magic "SRDN", version, kind, round (8 bytes), fingerprint of the terms (32 bytes), then
    from a client     its id (8 bytes), the body, and an Ed25519 signature over all of that
    from the server   the body

A decoder accepts exactly what the encoder writes: anything else raises `Malformed`, whatever the bytes are. Its length
is the first thing that is looked at: nothing is hashed or allocated for a message that is longer than one can be.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from sordino.aggregate.secure.errors import Malformed, OutOfTurn, WrongRound
from sordino.aggregate.secure.keys import SIGNATURE, Identity, verify
from sordino.aggregate.secure.terms import VERSION, SumTerms
from sordino.types import BoolArray

_MAGIC = b"SRDN"
_HEADER = struct.Struct("<4sBBQ32s")
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


HEADER = _HEADER.size


class MessageKind(IntEnum):
    """What a message is, in the order of the protocol: odd from clients, even from the server."""

    ADVERTISE = 1
    ROSTER = 2
    SHARES = 3
    INBOX = 4
    MASKED = 5
    SURVIVORS = 6
    CONSENT = 7
    REQUEST = 8
    UNMASK = 9


class Reader:
    """Takes fields off the front of some bytes, and refuses to run past their end."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._rest = memoryview(data)

    def take(self, count: int) -> bytes:
        """Returns the next bytes."""
        if count > len(self._rest):
            raise Malformed(f"a message ends {count - len(self._rest)} bytes too early: it was truncated")
        taken, self._rest = self._rest[:count], self._rest[count:]
        return bytes(taken)

    def rest(self) -> memoryview:
        """Returns all that is left, without a copy."""
        taken, self._rest = self._rest, self._rest[:0]
        return taken

    def number(self) -> int:
        """Returns the next 4 bytes as a number."""
        return int(_U32.unpack(self.take(4))[0])

    def many(self, size: int) -> list[bytes]:
        """Returns a counted list of fields of this size."""
        count = self.number()
        whole = self.take(count * size)
        return [whole[start : start + size] for start in range(0, len(whole), size)]

    def flags(self) -> BoolArray:
        """Returns a counted list of yes and no."""
        count = self.number()
        bits = np.unpackbits(np.frombuffer(self.take((count + 7) // 8), np.uint8))
        if bits[count:].any():
            raise Malformed("a list of clients has bits set beyond its end")
        return bits[:count].astype(bool)

    def finish(self) -> None:
        """Refuses bytes that are left over."""
        if len(self._rest):
            raise Malformed(f"a message has {len(self._rest)} bytes too many")


def pack_many(fields: list[bytes]) -> bytes:
    """Writes what `Reader.many` reads."""
    return _U32.pack(len(fields)) + b"".join(fields)


def pack_flags(flags: BoolArray) -> bytes:
    """Writes what `Reader.flags` reads."""
    return _U32.pack(len(flags)) + np.packbits(flags).tobytes()


@dataclass(frozen=True)
class Signed:
    """A client's message, opened but not yet verified."""

    terms: SumTerms
    kind: MessageKind
    sender: int
    body: memoryview
    signature: bytes

    @cached_property
    def fingerprint(self) -> bytes:
        """What its sender should have signed."""
        return fingerprint(self.terms, self.kind, self.sender, self.body)

    def verify(self, public: bytes) -> None:
        """Raises `BadSignature` unless the owner of this identity signed the message."""
        verify(public, self.signature, self.fingerprint, self.sender)


def fingerprint(terms: SumTerms, kind: MessageKind, sender: int, body: bytes | memoryview) -> bytes:
    """Returns what a client signs."""
    digest = hashlib.sha256(_header(terms, kind) + _U64.pack(sender))
    digest.update(body)
    return digest.digest()


def from_client(terms: SumTerms, kind: MessageKind, sender: int, body: bytes, identity: Identity) -> bytes:
    """Wraps and signs a client's message."""
    signature = identity.sign(fingerprint(terms, kind, sender, body))
    return b"".join((_header(terms, kind), _U64.pack(sender), body, signature))


def from_server(terms: SumTerms, kind: MessageKind, body: bytes) -> bytes:
    """Wraps a server's message."""
    return _header(terms, kind) + body


def open_client(terms: SumTerms, kind: MessageKind, message: bytes) -> Signed:
    """Unwraps a client's message of the kind that is due."""
    rest = _open(terms, kind, message, 8 + SIGNATURE)
    if len(rest) < 8 + SIGNATURE:
        raise Malformed("a message is too short to name and prove its sender: it was truncated")
    return Signed(terms, kind, int(_U64.unpack(rest[:8])[0]), rest[8:-SIGNATURE], bytes(rest[-SIGNATURE:]))


def open_server(terms: SumTerms, kind: MessageKind, message: bytes) -> Reader:
    """Unwraps a server's message of the kind that is due."""
    return Reader(_open(terms, kind, message, 0))


def most_bytes(terms: SumTerms, kind: MessageKind) -> int:
    """Returns how long the body of a message of this kind can be at most."""
    clients, holders, flags = len(terms.clients), terms.holders, 4 + (len(terms.clients) + 7) // 8
    removable = 64 + 8 * terms.width + 8 * terms.width // 1000 if terms.reveals else 0
    match kind:
        case MessageKind.ADVERTISE:
            return 64
        case MessageKind.ROSTER:
            return 4 + 136 * clients
        case MessageKind.SHARES:
            return 40 + 116 * holders
        case MessageKind.INBOX:
            return flags + 4 + 116 * clients
        case MessageKind.MASKED:
            return 9 + 100 * clients + 8 * terms.width
        case MessageKind.SURVIVORS:
            return flags + 4 + 68 * clients
        case MessageKind.CONSENT:
            return 104 + 36 * holders + (16 * clients if terms.tagged else 0)
        case MessageKind.REQUEST:
            return 4 + 68 * clients
        case MessageKind.UNMASK:
            return 8 + 40 * clients + removable


def _header(terms: SumTerms, kind: MessageKind) -> bytes:
    return _HEADER.pack(_MAGIC, VERSION, kind, terms.round_, terms.context)


def _open(terms: SumTerms, due: MessageKind, message: bytes, frame: int) -> memoryview:
    if len(message) < HEADER:
        raise Malformed(f"{len(message)} bytes are too few for a message: it was truncated")
    magic, version, kind, round_, context = _HEADER.unpack_from(message)
    if magic != _MAGIC or version != VERSION:
        raise Malformed(f"this is no secure-sum message of version {VERSION}: update both sides")
    if round_ != terms.round_ or context != terms.context:
        raise WrongRound(f"a message of round {round_}, or of other terms, came in round {terms.round_}: drop it")
    if kind != due:
        raise OutOfTurn(f"message kind {kind} came when {due.name} ({due.value}) was due: drop it")
    if len(message) > HEADER + frame + most_bytes(terms, due):
        raise Malformed(f"{len(message)} bytes are too many for {due.name}: it was padded")
    return memoryview(message)[HEADER:]

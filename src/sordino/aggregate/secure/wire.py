"""How messages of a secure sum travel as bytes, version 1: fixed little-endian fields, no pickle, nothing optional.

    every message     magic "SRDN", version, kind, round (8 bytes), fingerprint of the terms (16 bytes), then
    from a client     its id (8 bytes), the body, and an Ed25519 signature over all of that
    from the server   the body

A decoder accepts exactly what the encoder writes: anything else raises `Malformed`, whatever the bytes are.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from sordino.aggregate.secure.errors import Malformed, OutOfTurn, WrongRound
from sordino.aggregate.secure.keys import SIGNATURE, Identity, verify
from sordino.aggregate.secure.terms import Terms
from sordino.types import BoolArray

VERSION = 1

_MAGIC = b"SRDN"
_HEADER = struct.Struct("<4sBBQ16s")
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class Kind(IntEnum):
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

    def identifier(self) -> int:
        """Returns the next 8 bytes as a client's id."""
        return int(_U64.unpack(self.take(8))[0])

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

    sender: int
    body: memoryview
    signature: bytes
    signed: bytes
    """What the signature is about: a fingerprint of all bytes before it."""

    def verify(self, public: bytes) -> None:
        """Raises `BadSignature` unless the owner of this identity signed the message."""
        verify(public, self.signature, self.signed, self.sender)


def fingerprint(terms: Terms, kind: Kind, sender: int, body: bytes | memoryview) -> bytes:
    """Returns what a client signs."""
    digest = hashlib.sha256(_header(terms, kind) + _U64.pack(sender))
    digest.update(body)
    return digest.digest()


def from_client(terms: Terms, kind: Kind, sender: int, body: bytes, identity: Identity) -> bytes:
    """Wraps and signs a client's message."""
    signature = identity.sign(fingerprint(terms, kind, sender, body))
    return b"".join((_header(terms, kind), _U64.pack(sender), body, signature))


def from_server(terms: Terms, kind: Kind, body: bytes) -> bytes:
    """Wraps a server's message."""
    return _header(terms, kind) + body


def open_client(terms: Terms, kind: Kind, message: bytes) -> Signed:
    """Unwraps a client's message of the kind that is due."""
    rest = _open(terms, kind, message)
    if len(rest) < 8 + SIGNATURE:
        raise Malformed("a message is too short to name and prove its sender: it was truncated")
    (sender,), body = _U64.unpack(rest[:8]), rest[8:-SIGNATURE]
    return Signed(sender, body, bytes(rest[-SIGNATURE:]), fingerprint(terms, kind, sender, body))


def open_server(terms: Terms, kind: Kind, message: bytes) -> Reader:
    """Unwraps a server's message of the kind that is due."""
    return Reader(_open(terms, kind, message))


def _header(terms: Terms, kind: Kind) -> bytes:
    return _HEADER.pack(_MAGIC, VERSION, kind, terms.round_, terms.context)


def _open(terms: Terms, due: Kind, message: bytes) -> memoryview:
    if len(message) < _HEADER.size:
        raise Malformed(f"{len(message)} bytes are too few for a message: it was truncated")
    magic, version, kind, round_, context = _HEADER.unpack_from(message)
    if magic != _MAGIC or version != VERSION:
        raise Malformed(f"this is no secure-sum message of version {VERSION}: update both sides")
    if round_ != terms.round_ or context != terms.context:
        raise WrongRound(f"a message of round {round_}, or of other terms, came in round {terms.round_}: drop it")
    if kind != due:
        raise OutOfTurn(f"message kind {kind} came when {due.name} ({due.value}) was due: drop it")
    return memoryview(message)[_HEADER.size :]

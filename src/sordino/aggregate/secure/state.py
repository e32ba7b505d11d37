"""A client's side of a secure sum as bytes, so that each of its messages can be answered by a process of its own."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sordino.aggregate.secure.errors import Malformed, OutOfTurn
from sordino.aggregate.secure.messages import SECRET
from sordino.aggregate.secure.named import pack_named, parse_named
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.wire import MessageKind, Reader, pack_flags
from sordino.types import BoolArray

_HEAD = struct.Struct("<4sBB?Q")
_MAGIC = b"SRST"
_FORMAT = 1
_U32 = struct.Struct("<I")
DONE = 0
"""What is due when nothing is."""
CLIENT_KINDS = tuple(kind for kind in MessageKind if kind % 2)
"""The kinds of message that clients send, in their order."""


@dataclass(frozen=True)
class SumState:
    """All that a client keeps between two messages. `root` is its one secret: all its keys and choices follow from it.

    Attributes:
        due: the kind of message that it sends next (0: none, ever again); it only grows.
        sent: whether its vector has left it.
    """

    terms: SumTerms
    client: int
    due: int
    root: bytes = field(repr=False)
    sent: bool = False
    roster: bytes = b""
    sharers: BoolArray = field(default_factory=lambda: np.zeros(0, bool))
    alive: BoolArray = field(default_factory=lambda: np.zeros(0, bool))
    held: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """By owner: its share of the owner's seed and of the owner's key."""
    partners: tuple[int, ...] = ()
    """Whom it has added pairwise masks with."""

    def erased(self) -> SumState:
        """Returns what is left when a client has had its say: no secrets."""
        return SumState(self.terms, self.client, DONE, b"", self.sent)

    def pack(self) -> bytes:
        """Returns all of it as bytes: whoever reads them can unmask this client."""
        parts = (
            self.terms.pack(),
            self.root,
            self.roster,
            pack_flags(self.sharers) + pack_flags(self.alive),
            pack_named(self.held),
            struct.pack(f"<{len(self.partners)}I", *self.partners),
        )
        head = _HEAD.pack(_MAGIC, _FORMAT, self.due, self.sent, self.client)
        return head + b"".join(_U32.pack(len(part)) + part for part in parts)

    @classmethod
    def parse(cls, data: bytes) -> SumState:
        """Reads what `pack` writes; anything else is `Malformed`."""
        if len(data) < _HEAD.size or not any(data):
            raise Malformed("this is no saved client of a secure sum: it was wiped or truncated")
        due, sent = read_head(data)
        client = int(_HEAD.unpack_from(data)[4])
        reader = Reader(data[_HEAD.size :])
        terms, root, roster, flags, held, partners = (reader.take(reader.number()) for _ in range(6))
        reader.finish()
        if due not in (DONE, *CLIENT_KINDS) or len(partners) % 4:
            raise Malformed("a saved client of a secure sum is at no stage of it: it was damaged")
        flag_reader, places = Reader(flags), np.frombuffer(partners, "<u4")
        state = cls(SumTerms.parse(terms), client, due, root, sent, roster, flag_reader.flags(), flag_reader.flags())
        state = replace(state, held=parse_named(Reader(held), 2 * SECRET), partners=tuple(places.tolist()))
        if state.pack() != data:
            raise Malformed("a saved client of a secure sum is not as it was written: it was damaged")
        return state


def read_head(data: bytes) -> tuple[int, bool]:
    """Returns what a saved client says next, and whether its vector has left it; a wiped file has said everything."""
    if not any(data):
        return DONE, True
    if len(data) < _HEAD.size or data[:4] != _MAGIC or data[4] != _FORMAT:
        raise Malformed("this is no saved client of a secure sum, or one of another version")
    return data[5], bool(data[6])


def next_due(due: int) -> int:
    """Returns the kind of message that follows in a client's course."""
    return DONE if due == MessageKind.UNMASK else due + 2


def check_due(state: SumState, kind: MessageKind) -> None:
    """Raises unless this kind of message is what the client says next."""
    if state.due != kind:
        due = "nothing" if state.due == DONE else MessageKind(state.due).name
        raise OutOfTurn(f"client {state.client} was asked for {kind.name} when {due} was due: drop it")

"""How sordino's messages travel in Flower's: signed parcels of named bytes, one a stage and node.

    server → node   hello   tell   contribute   advertise   share   mask   consent   unmask      (`query.<stage>`)
    node → server   an answer of the same stage, or a refusal: one sentence for the operator

A parcel names its stage, run, round, attempt and node, and is signed over all of it: by the operator's key towards a
node, by the node's key (the one that the registry lists) towards the server. An answer names the very request that it
answers, by a digest of all of it, the plan and the terms included. So a SuperLink can neither change nor replay one for
another request, nor pass one node's answer off as another's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from sordino.aggregate.secure.errors import BadSignature
from sordino.aggregate.secure.keys import Identity, verify
from sordino.errors import ProtocolError

Stage = Literal["hello", "tell", "contribute", "advertise", "share", "mask", "consent", "unmask"]
STAGES: tuple[Stage, ...] = get_args(Stage)
SENDING: tuple[Stage, ...] = ("tell", "contribute", "mask")
"""Stages in which something of a member's records leaves it: only who signs a refusal of these pays nothing."""

PROTOCOL = 6
"""Version of these messages: both sides must have the same."""
SERVER = -1
"""Who signs, where it is the operator."""

_WHOLE = 1 << 22
"""Parcels up to this many bytes travel as one Flower object; larger ones as arrays, which Flower cuts into chunks."""
REQUEST = b"sordino request\n"
"""How the bytes begin that are signed of a request."""
_PURPOSE = {True: REQUEST, False: b"sordino answer\n"}


@dataclass(frozen=True)
class Parcel:
    """Named bytes of one stage of one round, from the server to one node or back.

    **Formal guarantees**: `sealed` signs every field, and `opened` returns a parcel only if it was signed as it is.
    """

    stage: Stage
    run: str
    round_: int
    attempt: int
    node: int
    """The member's number: who is asked, or who answers."""
    parts: Mapping[str, bytes] = field(default_factory=dict)
    refused: str = ""
    """Why a node takes no part, as a sentence; empty where it does."""
    request: bool = True
    signature: bytes = b""
    answers: str = ""
    """Of an answer: the digest of the request that it answers."""

    def answer(self, parts: Mapping[str, bytes] | None = None, refused: str = "", node: int | None = None) -> Parcel:
        """Returns an answer to this request, still to be signed; `node` is who answers, if the request did not know."""
        who = self.node if node is None else node
        return replace(
            self, parts=parts or {}, refused=refused, request=False, signature=b"", node=who, answers=self.digest
        )

    @cached_property
    def digest(self) -> str:
        """What an answer calls this request: everything but the signature is in it."""
        return hashlib.sha256(self.message).hexdigest()

    @cached_property
    def message(self) -> bytes:
        """The bytes that are signed: everything but the signature, in one spelling."""
        digests = {name: hashlib.sha256(part).hexdigest() for name, part in self.parts.items()}
        told = {"protocol": PROTOCOL, "parts": digests} | self._head()
        return _PURPOSE[self.request] + json.dumps(told, sort_keys=True, separators=(",", ":")).encode()

    def sealed(self, identity: Identity) -> Parcel:
        """Returns the parcel with a signature over all of it."""
        return replace(self, signature=identity.sign(self.message))

    def check(self, public: bytes, who: str) -> None:
        """Raises ProtocolError unless the owner of this key signed the parcel as it is."""
        try:
            verify(public, self.signature, self.message, SERVER if self.request else self.node)
        except BadSignature:
            raise ProtocolError(f"a message of stage {self.stage} is not signed by {who}: it is ignored") from None

    def _head(self) -> dict[str, str | int]:
        return {
            "stage": self.stage,
            "run": self.run,
            "round": self.round_,
            "attempt": self.attempt,
            "node": self.node,
            "refused": self.refused,
            "answers": self.answers,
        }

    def pack(self) -> RecordDict:
        """Returns the parcel as Flower carries it."""
        told = json.dumps(self._head(), separators=(",", ":")).encode()  # one field: Flower checks each on its own
        head: dict[str, Any] = {"protocol": PROTOCOL, "signature": self.signature, "head": told}
        if sum(map(len, self.parts.values())) <= _WHOLE:
            head |= {f"part/{name}": part for name, part in self.parts.items()}
            return RecordDict({"sordino": ConfigRecord(head)})
        arrays = {name: Array("uint8", (len(part),), "bytes", part) for name, part in self.parts.items()}
        return RecordDict({"sordino": ConfigRecord(head), "parts": ArrayRecord(arrays)})

    @classmethod
    def parse(cls, records: RecordDict, request: bool) -> Parcel:
        """Reads what `pack` writes.

        Raises:
            ProtocolError: it is no parcel, or one of another version.
        """
        try:
            came: dict[str, Any] = dict(records.config_records["sordino"])
            if came["protocol"] != PROTOCOL:
                raise ProtocolError(
                    f"a message speaks version {came['protocol']} and this is {PROTOCOL}: install one sordino on "
                    "server and nodes"
                )
            head: dict[str, Any] = json.loads(came["head"])
            parts = {name.removeprefix("part/"): part for name, part in came.items() if name.startswith("part/")}
            for record in records.array_records.values():
                parts |= {name: array.data for name, array in record.items()}
            signature = came["signature"]
            if not all(isinstance(part, bytes) for part in (signature, *parts.values())):
                raise ProtocolError("a message holds something else than bytes: update both sides")
            if head["stage"] not in STAGES:
                raise ProtocolError(f"a message of stage {head['stage']!r} is none of this version: update both sides")
            return cls(
                head["stage"],
                str(head["run"]),
                _whole(head["round"]),
                _whole(head["attempt"]),
                _whole(head["node"]),
                parts,
                str(head["refused"]),
                request,
                signature,
                str(head["answers"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ProtocolError(f"a message of the federation cannot be read ({error}): ask for it again") from None

    def part(self, name: str) -> bytes:
        """Returns one part, which must be there."""
        if name not in self.parts:
            raise ProtocolError(f"a message of stage {self.stage} lacks {name}: update both sides")
        return self.parts[name]


def _whole(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise ProtocolError(f"a message counts {value!r}, which is no number of a round or node: ask for it again")
    return value

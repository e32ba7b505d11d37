"""What a member has paid for, shown by the operator's own signature: nobody's word stops a run.

A server that was set back to an older copy of its folder has forgotten what it announced, and its members have not. A
member shows the request that it paid for, as it was signed: its head, and digests of its parts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sordino.aggregate.secure.errors import BadSignature
from sordino.aggregate.secure.keys import verify
from sordino.errors import NodeRefused, ProtocolError
from sordino.federation.journal import Progress
from sordino.federation.messages import REQUEST, SENDING, SERVER, Parcel

_REQUEST = REQUEST.decode()
_MOST = 64
"""Receipts that a member may show: the newest round's, and one for each opening."""


@dataclass(frozen=True)
class Receipt:
    """A request that was paid for: the bytes that the operator signed, and the signature."""

    message: str
    signature: str

    @classmethod
    def of(cls, request: Parcel) -> Receipt:
        """Returns the receipt of a request as it came."""
        return cls(request.message.decode(), request.signature.hex())

    @property
    def round_(self) -> int:
        """The round that it is of; 0 before the first one."""
        return int(json.loads(self.message.removeprefix(_REQUEST))["round"])

    def check(self, run: str, member: int, operator: bytes) -> None:
        """Raises ProtocolError unless the operator asked this member, in this run, for something of its records."""
        try:
            verify(operator, bytes.fromhex(self.signature), self.message.encode(), SERVER)
        except BadSignature:
            raise ProtocolError(
                f"member {member} says that it has paid for what this operator never asked for: it is left out"
            ) from None
        asked = self.message.startswith(_REQUEST)
        told = json.loads(self.message.removeprefix(_REQUEST)) if asked else {}
        if not asked or (told["run"], told["node"]) != (run, member) or told["stage"] not in SENDING:
            raise ProtocolError(f"member {member} shows a request of another run, member or stage: it is left out")


def with_newest(kept: Sequence[Receipt], newest: Receipt) -> list[Receipt]:
    """Returns what is worth keeping when a receipt comes: those of openings, and the newest round's."""
    both = [*kept, newest] if newest not in kept else [*kept]
    last = max(receipt.round_ for receipt in both)
    return [receipt for receipt in both if receipt.round_ in (0, last)]


def pack(receipts: Sequence[Receipt]) -> bytes:
    """Returns receipts as bytes."""
    return json.dumps([[receipt.message, receipt.signature] for receipt in receipts]).encode()


def parse(data: bytes) -> list[Receipt]:
    """Inverts `pack`; raises ValueError if it is something else."""
    told = json.loads(data)
    if not isinstance(told, list) or len(told) > _MOST:
        raise ValueError("a short list of receipts was expected")
    receipts = [Receipt(message, signature) for message, signature in told]
    if not all(isinstance(text, str) for one in receipts for text in (one.message, one.signature)):
        raise ValueError("receipts are two texts each")
    return receipts


def proven(receipts: Sequence[Receipt], run: str, member: int, operator: bytes) -> Progress:
    """Returns how far a member's receipts show that a run was announced.

    **Formal guarantees**: every number rests on a request that this operator signed, for this run and this member.

    Raises:
        ProtocolError: one of them does not.
    """
    for receipt in receipts:
        receipt.check(run, member, operator)
    return _progress([receipt.round_ for receipt in set(receipts)])


def require_all(rounds: Sequence[int], receipts: Sequence[Receipt], run: str) -> None:
    """Raises NodeRefused if a node has paid for rounds of a run that its receipts do not show."""
    if not _progress(rounds).within(_progress([receipt.round_ for receipt in receipts])):
        raise NodeRefused(
            f"this node's ledger has more of run {run} than the requests that it kept under state/rounds show: this "
            "run is over for it, and the next one is open to it"
        )


def _progress(rounds: Sequence[int]) -> Progress:
    return Progress(max(rounds, default=0), rounds.count(0))

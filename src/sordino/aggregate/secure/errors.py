"""What can go wrong in a secure sum, by name.

ProtocolError
├── Malformed       bytes that are no message of this version: truncated, too long, or nonsense
├── WrongRound      a message of another round, attempt or agreement: replayed, or from a stranger
├── OutOfTurn       a message that is not due: too early, too late, or the second of its kind
├── BadSignature    a message that its sender did not sign, or that was changed on the way
├── KeySwapped      a key list that differs from what was registered, or from what we sent ourselves
├── WrongVector     a masked vector of another length or modulus
├── ShareRejected   a share that was sealed for somebody else, or was changed on the way
├── ForeignShare    shares of somebody that nobody asked this client about
├── BadShare        shares that do not give back the secret that was committed to
├── BelowPolicy     terms that a client's own floors forbid
├── AnsweredAlready a round, or an attempt at it, in which this client has had its say
├── SplitView       a server that tells different clients different stories
└── TooFewClients   fewer clients are left than the round needs: it is aborted, and nothing is released
"""

from __future__ import annotations

from sordino.errors import ProtocolError


class Malformed(ProtocolError):
    """The bytes are no message of this version."""


class WrongRound(ProtocolError):
    """The message belongs to another round, attempt or agreement."""


class OutOfTurn(ProtocolError):
    """The message is not due now."""


class BadSignature(ProtocolError):
    """The sender did not sign these bytes."""


class KeySwapped(ProtocolError):
    """A key list differs from what was registered, or from what we sent."""


class WrongVector(ProtocolError):
    """A vector has another length or modulus than was agreed."""


class ShareRejected(ProtocolError):
    """A sealed share was not meant for us, or was changed on the way."""


class ForeignShare(ProtocolError):
    """Shares were sent that nobody asked this client for."""


class BadShare(ProtocolError):
    """Shares do not give back the secret that their owner committed to; `client` is who is to blame."""

    def __init__(self, message: str, client: int | None = None) -> None:
        super().__init__(message)
        self.client = client


class BelowPolicy(ProtocolError):
    """The terms are below what this client asks for."""


class AnsweredAlready(ProtocolError):
    """This client has had its say in this attempt, or in this round."""


class SplitView(ProtocolError):
    """The server's story differs from the one that was agreed."""


class TooFewClients(ProtocolError):
    """Fewer clients are left than the round needs."""

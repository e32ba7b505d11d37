"""Keys of one client in one secure sum: who it is, whom it shares secrets with, and what it derives from them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sordino.aggregate.secure.errors import BadSignature, KeySwapped, ShareRejected

KEY = 32
SIGNATURE = 64
TAG = 16

_FIELD = 2**255 - 19
_LOW_ORDER = frozenset({
    0,
    1,
    _FIELD - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
})  # fmt: skip
_KEPT = 1 << 13  # agreements that an identity remembers


@dataclass(frozen=True)
class Identity:
    """A long-lived signing key. Its public half is what is registered."""

    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate, repr=False)
    _agreed: dict[bytes, bytes | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def public(self) -> bytes:
        """The 32 bytes to register."""
        return self.private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Returns the 64-byte signature."""
        return self.private.sign(message)

    def agreements(self, publics: Sequence[bytes]) -> list[bytes | None]:
        """Returns the lasting secret shared with each of these identities (None: with no such point).

        **Formal guarantees**: Diffie-Hellman between the two signing keys, taken to Curve25519; only the two owners
        can compute it. One key for Ed25519 and for X25519 is as safe as two, in the random oracle model.
        **Edge cases**: it is kept as long as this object, for some thousand identities: the next round costs nothing.
        **Reference**: RFC 7748, section 4.1 (the map); Thormarker (2021), "On using the same key pair for Ed25519 and
        an X25519 based KEM".
        """
        if len(self._agreed) > _KEPT:
            self._agreed.clear()
        if missing := [public for public in publics if public not in self._agreed]:
            own = Agreement.of(hashlib.sha512(self.private.private_bytes_raw()).digest()[:KEY])
            points = zip(missing, _montgomery(missing), strict=True)
            self._agreed.update((public, _agreed(own, point)) for public, point in points)
        return [self._agreed[public] for public in publics]


def verify(public: bytes, signature: bytes, message: bytes, sender: int) -> None:
    """Raises `BadSignature` unless the sender signed exactly this message."""
    if not _signed(public, signature, message):
        raise BadSignature(f"client {sender} did not sign these bytes: drop the message")


@lru_cache(maxsize=1 << 14)  # where many clients share a process, each signature is looked at once
def _signed(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Agreement:
    """A key pair for Diffie-Hellman agreement, made for one round or one box and thrown away with it."""

    private: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate, repr=False)

    @classmethod
    def of(cls, secret: bytes) -> Agreement:
        """Returns the pair of a 32-byte secret."""
        return cls(X25519PrivateKey.from_private_bytes(secret))

    @property
    def public(self) -> bytes:
        """The 32 bytes to advertise."""
        return self.private.public_key().public_bytes_raw()

    @property
    def secret(self) -> bytes:
        """The 32 bytes to share out."""
        return self.private.private_bytes_raw()

    def with_(self, public: bytes) -> bytes:
        """Returns the secret shared with the owner of a public key; keys of low order are refused."""
        try:
            return self.private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise KeySwapped("a public key in the roster is not a point that secrets can be agreed with") from error


def _agreed(own: Agreement, point: bytes) -> bytes | None:
    try:
        return own.with_(point)
    except KeySwapped:
        return None


def _montgomery(publics: Sequence[bytes]) -> list[bytes]:
    """Returns u = (1 + y)/(1 − y) for every Ed25519 key, at the price of one inversion; 0 where there is none."""
    ys = [int.from_bytes(public, "little") % (1 << 255) % _FIELD for public in publics]
    below, running = [(1 - y) % _FIELD or 1 for y in ys], [1]
    for denominator in below:
        running.append(running[-1] * denominator % _FIELD)
    inverse, points = pow(running.pop(), -1, _FIELD), list[bytes]()
    for y, denominator in zip(reversed(ys), reversed(below), strict=True):
        u = (1 + y) * inverse * running.pop() % _FIELD
        inverse = inverse * denominator % _FIELD
        points.append((u if y != 1 else 0).to_bytes(KEY, "little"))
    return points[::-1]


def derive(secret: bytes, context: bytes, purpose: str, *parties: int) -> bytes:
    """Returns 32 bytes for one purpose between these parties, in their order: HKDF-SHA256, bound to the terms."""
    info = purpose.encode() + b"".join(party.to_bytes(8, "little") for party in parties)
    return HKDF(hashes.SHA256(), 32, context, info).derive(secret)


def usable(public: bytes) -> bool:
    """Whether a public key is written in the one way that counts, and is a point that secrets can be agreed with.

    X25519 itself ignores the topmost bit, and agrees on zero with the five points whose order divides 8.
    """
    point = int.from_bytes(public, "little")
    return len(public) == KEY and point < _FIELD and point not in _LOW_ORDER


def seal(secret: bytes, roster: bytes, sender: int, recipient: int, plain: bytes) -> bytes:
    """Encrypts one message from a sender to a recipient.

    The key is derived for this sender, recipient and *roster*, from an agreement that is made for this one box: so the
    nonce can be zero, and a client that is restored from a copy and shown another roster uses another key.
    """
    return _cipher(secret, roster, sender, recipient).encrypt(bytes(12), plain, None)


def unseal(secret: bytes, roster: bytes, sender: int, recipient: int, sealed: bytes) -> bytes:
    """Decrypts what `seal` made; raises `ShareRejected` if it was meant for others or changed."""
    try:
        return _cipher(secret, roster, sender, recipient).decrypt(bytes(12), sealed, None)
    except InvalidTag as error:
        raise ShareRejected(
            f"the share from client {sender} was not sealed for client {recipient}, or was changed"
        ) from error


def _cipher(secret: bytes, roster: bytes, sender: int, recipient: int) -> AESGCM:
    return AESGCM(derive(secret, roster, "box", sender, recipient))

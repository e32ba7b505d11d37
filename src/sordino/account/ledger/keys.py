"""The ledger's key: it signs the heads that are published, and hides who the clients are.

It lies in a file of its own beside the ledger (mode 0600), not in the ledger: whoever gets a copy of the ledger, an
auditor or a thief, can check every number in it, but can neither try names until one fits nor sign another history.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sordino.account.ledger.sqlite import sync_name
from sordino.errors import LedgerError

DIGEST = 16
"""Bytes of a keyed digest: two of 10⁶ names collide with probability 10⁻²⁷."""


def key_path(ledger: Path) -> Path:
    """Returns where the key of this ledger lies."""
    return ledger.with_name(f"{ledger.name}.key")


@dataclass(frozen=True, repr=False)
class LedgerKey:
    """A secret to sign with, and a secret to digest with.

    Formal guarantees: without `secret`, a digest tells nothing about what was digested (BLAKE2b as a keyed hash);
    without `seed`, nobody can sign a head that verifies under `public` (Ed25519).
    """

    seed: bytes
    secret: bytes

    @classmethod
    def load(cls, path: Path) -> LedgerKey:
        """Reads a key file.

        Raises:
            LedgerError: it is missing, unreadable, or open to others than its owner.
        """
        try:
            if path.stat().st_mode & 0o077:
                raise LedgerError(f"ledger key {path} can be read by others: run `chmod 600` on it")
            told = json.loads(path.read_text())
            key = cls(bytes.fromhex(told["sign"]), bytes.fromhex(told["digest"]))
            if (len(key.seed), len(key.secret)) != (32, 32):
                raise ValueError("wrong length")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise LedgerError(
                f"ledger key {path} cannot be read ({type(error).__name__}): restore it, without it nobody can write "
                "to its ledger"
            ) from error
        return key

    @classmethod
    def make(cls, path: Path) -> LedgerKey:
        """Returns a new key, once it is safe on disk. Call while no other process can make one."""
        key = cls(secrets.token_bytes(32), secrets.token_bytes(32))
        draft = path.with_name(f"{path.name}.new")
        try:
            draft.unlink(missing_ok=True)
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as out:
                out.write(json.dumps({"sign": key.seed.hex(), "digest": key.secret.hex()}) + "\n")
                out.flush()
                os.fsync(out.fileno())
            draft.replace(path)
            sync_name(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)  # half a secret is one, too
            raise LedgerError(
                f"ledger key {path} cannot be written ({error.strerror}): nothing was released, check the disk"
            ) from error
        return key

    @cached_property
    def _signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @cached_property
    def public(self) -> str:
        """The public key, in hex."""
        return self._signer.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """Returns a signature, in hex."""
        return self._signer.sign(message).hex()

    def digest(self, purpose: bytes, content: bytes) -> bytes:
        """Returns the keyed digest of something private."""
        return hashlib.blake2b(content, digest_size=DIGEST, key=self.secret, person=purpose).digest()

    def digests(self, purpose: bytes, contents: Iterable[bytes]) -> bytes:
        """Returns the keyed digests of many, one after the other."""
        begun = hashlib.blake2b(digest_size=DIGEST, key=self.secret, person=purpose)

        def one(content: bytes) -> bytes:
            state = begun.copy()  # half the time of beginning anew, which counts for a million names
            state.update(content)
            return state.digest()

        return b"".join(map(one, contents))


def signed(public: str, message: bytes, signature: str) -> bool:
    """Returns whether this signature of the message was made with the key of which `public` is the public half."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True

"""What every party of a secure sum can compute from the roster: places, and fingerprints of the story so far."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sordino.aggregate.secure.keys import Agreement, derive
from sordino.aggregate.secure.messages import SECRET, Roster
from sordino.aggregate.secure.terms import SumTerms
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class RosterView:
    """The roster as one party was shown it."""

    terms: SumTerms
    roster: Roster

    @cached_property
    def fingerprint(self) -> bytes:
        """A fingerprint of the terms and the whole roster, signatures included."""
        return hashlib.sha256(b"roster" + self.terms.context + self.roster.lines).digest()

    @property
    def size(self) -> int:
        """How many clients the roster has."""
        return self.roster.size

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of each client in the roster, by id."""
        return {client: place for place, client in enumerate(self._ids)}

    @cached_property
    def _ids(self) -> list[int]:
        return [int(client) for client in self.roster.clients.tolist()]

    @cached_property
    def id_bytes(self) -> list[bytes]:
        """Everybody's id as 8 bytes, by place."""
        return [client.to_bytes(8, "little") for client in self._ids]

    def client(self, place: int) -> int:
        """Returns the id of the client at a place."""
        return self._ids[place]

    def clients(self, flags: BoolArray) -> IntArray:
        """Returns the ids of the clients that are flagged."""
        return self.roster.clients[flags].astype(np.int64)

    def shared(self, sharers: BoolArray) -> bytes:
        """Returns the story that masks are bound to: the roster, and who shared secrets."""
        return hashlib.sha256(b"shared" + self.fingerprint + np.packbits(sharers).tobytes()).digest()

    def agreed(self, sharers: BoolArray, alive: BoolArray, registry: Mapping[int, bytes]) -> bytes:
        """Returns the story that clients consent to: the roster, who shared secrets, who is alive, and who is who.

        A client whose registry has another key for anybody in the roster tells another story: nobody counts a name
        that some key was stolen for, and that others have replaced.
        """
        known = (registry.get(client) for client in self._ids)
        identities = b"".join(bytes(33) if public is None else b"\1" + public for public in known)
        parts = b"alive" + self.shared(sharers) + np.packbits(alive).tobytes()
        return hashlib.sha256(parts + hashlib.sha256(identities).digest()).digest()


def seed_commitment(terms: SumTerms, client: int, seed: bytes) -> bytes:
    """Returns what a client publishes of its self-mask seed, so that wrong shares of it are noticed."""
    return hashlib.sha256(b"seed" + terms.context + client.to_bytes(8, "little") + seed).digest()


def share_digests(view: RosterView, owner: int, holder: int, secrets: bytes) -> bytes:
    """Returns what a client publishes of a holder's two shares, so that a wrong one is pinned on who sent it."""
    return b"".join(
        share_digest(view, owner, holder, kind, secrets[kind * SECRET : (kind + 1) * SECRET]) for kind in (0, 1)
    )


def share_digest(view: RosterView, owner: int, holder: int, kind: int, share: bytes) -> bytes:
    """Returns the digest of one share (0: of the seed, 1: of the key).

    Shares are uniform in 2^128, so a digest of one says nothing about it.
    """
    who = owner.to_bytes(8, "little") + holder.to_bytes(8, "little")
    return hashlib.sha256(b"share%d" % kind + view.fingerprint + who + share).digest()[:SECRET]


def held_digests(view: RosterView, owners: IntArray, holder: int, kind: int, shares: bytes) -> bytes:
    """Returns the digests (see `share_digest`) of all shares of one kind that a holder has; clients by place."""
    sha256, head, tail, ids = hashlib.sha256, b"share%d" % kind + view.fingerprint, view.id_bytes[holder], view.id_bytes
    starts = range(0, len(shares), SECRET)
    return b"".join(
        [
            sha256(head + ids[owner] + tail + shares[at : at + SECRET]).digest()[:SECRET]
            for owner, at in zip(owners.tolist(), starts, strict=True)
        ]
    )


def mask_agreement(terms: SumTerms, client: int, secret: bytes) -> Agreement:
    """Returns the key pair that a client's 16-byte mask secret stands for."""
    return Agreement.of(derive(secret, terms.context, "mask key", client))

"""Tags: a client's name under a story, one for each other client to check, by a secret that only these two share."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sordino.aggregate.secure.errors import Malformed, SplitView
from sordino.aggregate.secure.keys import TAG, Identity
from sordino.aggregate.secure.named import NamedFields, line_type
from sordino.aggregate.secure.view import RosterView
from sordino.types import BoolArray

_NONE = bytes(TAG)


@dataclass(frozen=True)
class Pairs:
    """The lasting secrets that one client shares with the others of a roster, by place, as far as they are wanted."""

    secrets: Mapping[int, bytes | None]

    @classmethod
    def of(cls, view: RosterView, alive: BoolArray, identity: Identity, registry: Mapping[int, bytes]) -> Pairs:
        """Agrees with all that are said to be alive and are registered."""
        wanted = [(place, registry.get(view.client(place))) for place in np.flatnonzero(alive).tolist()]
        known = {place: public for place, public in wanted if public is not None}
        return cls(dict(zip(known, identity.agreements(list(known.values())), strict=True)))


def make_tags(view: RosterView, own: int, story: bytes, alive: BoolArray, pairs: Pairs) -> bytes:
    """Returns a client's tags for all survivors, in the order of their places (its own, and nobody's, is zero)."""
    return b"".join(
        _tag(view, own, place, story, pairs.secrets.get(place)) if place != own else _NONE
        for place in np.flatnonzero(alive).tolist()
    )


def check_tags(
    view: RosterView, story: bytes, alive: BoolArray, tags: Mapping[int, bytes], pairs: Pairs, own: int
) -> set[int]:
    """Returns the places of those, ourselves included, whose tag under our story is right.

    **Formal guarantees**: a tag that counts was made by its sender or by us: nobody else has the secret. So the server
    can show us no name that its owner has not put there for us, but for 2^-128 a tag.
    **Edge cases**: a wrong tag does not count, and is no reason to stop: the server cannot check tags, so a client that
    sends wrong ones would stop everybody; like this it has merely not consented.
    """
    verified = {own}
    for place, tag in tags.items():
        if place >= view.size or not alive[place]:
            raise SplitView("a consent comes from somebody who is no survivor: do not go on")
        secret = pairs.secrets.get(place)
        if place != own and secret is not None and hmac.compare_digest(_tag(view, place, own, story, secret), tag):
            verified.add(place)
    return verified


def tags_by_reader(alive: BoolArray, consents: Mapping[int, bytes]) -> dict[int, NamedFields]:
    """Returns, for each reader, everybody's tag for it: what the server hands on. Sizes were checked."""
    places, senders = np.flatnonzero(alive).tolist(), sorted(consents)
    tags = np.frombuffer(b"".join(consents[sender] for sender in senders), np.uint8)
    lines = np.empty((len(places), len(senders)), line_type(TAG))
    lines["place"] = senders
    lines["field"] = tags.reshape(len(senders), len(places), TAG).swapaxes(0, 1)
    return {reader: NamedFields(lines[at].tobytes(), TAG) for at, reader in enumerate(places) if reader in consents}


def check_size(alive: BoolArray, tags: bytes, client: int) -> None:
    """Refuses a consent that has not one tag for each survivor."""
    if len(tags) != TAG * int(alive.sum()):
        raise Malformed(f"client {client} sent {len(tags)} bytes of tags for {int(alive.sum())} survivors")


def _tag(view: RosterView, sender: int, reader: int, story: bytes, secret: bytes | None) -> bytes:
    if secret is None:
        return _NONE
    who = view.client(sender).to_bytes(8, "little") + view.client(reader).to_bytes(8, "little")
    return hashlib.blake2b(b"consent" + who + story, key=secret, digest_size=TAG).digest()

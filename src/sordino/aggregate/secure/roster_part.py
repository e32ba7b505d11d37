"""What follows, for one client, from its one secret and what it was shown: keys, holders, shares, boxes, complaints."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from sordino.aggregate.secure.boxes import check_complaint, make_box, open_box, sign_complaint
from sordino.aggregate.secure.checks import KeyRegistry
from sordino.aggregate.secure.errors import KeySwapped, ShareRejected, SplitView
from sordino.aggregate.secure.graph import draw_holders
from sordino.aggregate.secure.keys import KEY, Agreement, Identity, derive
from sordino.aggregate.secure.messages import DIGEST, SECRET, Advertise, RosterEntry
from sordino.aggregate.secure.shares import split
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.view import RosterView, mask_agreement, share_digests
from sordino.aggregate.secure.wire import MessageKind, fingerprint


@dataclass(frozen=True)
class ClientKeys:
    """The keys of one client in one round: they follow from its secret and the terms."""

    terms: SumTerms
    client: int
    root: bytes = field(repr=False)

    def entry(self, identity: Identity) -> RosterEntry:
        """Returns the line that this client has in a roster."""
        keys = Advertise(self.share_keys.public, self.mask_keys.public)
        signed = fingerprint(self.terms, MessageKind.ADVERTISE, self.client, keys.pack())
        return RosterEntry(self.client, keys, identity.sign(signed))

    @property
    def share_keys(self) -> Agreement:
        """With which others seal boxes for it."""
        return Agreement.of(self._derive("share key"))

    @property
    def mask_keys(self) -> Agreement:
        """With which it agrees on masks."""
        return mask_agreement(self.terms, self.client, self.mask_secret)

    @property
    def mask_secret(self) -> bytes:
        """What its mask keys follow from: this is shared out."""
        return self._derive("mask secret")[:SECRET]

    @property
    def seed(self) -> bytes:
        """What its self mask follows from: this is shared out, too."""
        return self._derive("seed")[:SECRET]

    def _derive(self, purpose: str) -> bytes:
        return derive(self.root, self.terms.context, purpose, self.client)


class RosterPart:
    """A client's own part in the roster that it was shown: the same every time."""

    def __init__(self, keys: ClientKeys, view: RosterView) -> None:
        self.view, self._keys = view, keys
        self.place = view.places[keys.client]
        degree = keys.terms.degree
        self.complete = degree == 0 or degree >= view.size - 1
        self.holders = draw_holders(self._secret("holders"), view.size, self.place, degree)
        self.others = [place for place in self.holders.tolist() if place != self.place]

    def secrets(self) -> dict[int, bytes]:
        """Returns every holder's shares of the seed and of the mask key."""
        key, both = self._secret("polynomial"), self._keys.seed + self._keys.mask_secret
        shares = split(both, self._keys.terms.threshold, len(self.holders),
                       lambda count: hashlib.shake_256(b"polynomial" + key).digest(count))  # fmt: skip
        return dict(zip(self.holders.tolist(), shares, strict=True))

    def sealed(self, place: int, secrets: bytes) -> bytes:
        """Returns the box for one holder."""
        return make_box(self.view, self._box_key(place), self.place, place, secrets)

    def opened(self, boxes: Mapping[int, bytes], identity: Identity) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Returns the shares in boxes that came, by owner, and complaints about those that do not open."""
        held, complaints, keys = dict[int, bytes](), dict[int, bytes](), self._keys.share_keys
        for sender, came in boxes.items():
            try:
                agreed = keys.with_(came[DIGEST : DIGEST + KEY])
                held[sender] = open_box(self.view, agreed, sender, self.place, came[:DIGEST], came[DIGEST:])
            except (ShareRejected, KeySwapped):
                complaints[sender] = sign_complaint(self.view, self.place, sender, came, identity)
        return held, complaints

    def openings(self, accusers: Mapping[int, bytes], registry: KeyRegistry) -> dict[int, bytes]:
        """Returns the keys of those boxes that their holders complain about, if they complain about what was sent."""
        if len(accusers) >= self._keys.terms.threshold or not set(accusers) <= set(self.others):
            raise SplitView("complaints come from clients that hold no share, or from too many: do not go on")
        openings, secrets = dict[int, bytes](), self.secrets() if accusers else {}
        for place, signature in accusers.items():
            client = self.view.client(place)
            digests = share_digests(self.view, self._keys.client, client, secrets[place])
            sent = digests + self.sealed(place, secrets[place])
            check_complaint(self.view, place, self.place, sent, signature, registry[client])
            openings[place] = self._box_key(place).secret
        return openings

    def _box_key(self, place: int) -> Agreement:
        """Returns the key pair of the box for one holder."""
        return Agreement.of(self._secret("box key", self.view.client(place)))

    def _secret(self, purpose: str, *parties: int) -> bytes:
        return derive(self._keys.root, self.view.fingerprint, purpose, self._keys.client, *parties)

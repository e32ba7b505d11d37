"""A crowd for the benchmark of secure sums: clients that say what the server needs to hear, without the work.

To time the server, and a few clients, among ten thousand, the others need not do all that a client does. A client of
the crowd checks nothing, seals boxes only for those who will open them, and adds only masks that do not cancel against
another client of the crowd (its own, and those with clients that vanish or that are real). Its messages are as long as
a real client's, are signed, and add up to the right sum: the server cannot tell, and neither can the real clients.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from sordino.aggregate.integers import UIntArray
from sordino.aggregate.secure.boxes import make_box
from sordino.aggregate.secure.graph import draw_holders
from sordino.aggregate.secure.keys import Agreement, Identity
from sordino.aggregate.secure.masks import add_masks, pair_mask, self_mask
from sordino.aggregate.secure.messages import SEALED, SECRET, Advertise, Consent, Masked, Roster, Shares, Unmask
from sordino.aggregate.secure.shares import split
from sordino.aggregate.secure.tags import TAG, Pairs, make_tags
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.view import RosterView, mask_agreement, seed_commitment, share_digests
from sordino.aggregate.secure.wire import MessageKind, Reader, fingerprint, from_client, open_client, open_server
from sordino.types import BoolArray


@dataclass
class Crowd:
    """Everybody but the real clients. Ids are places: 0, 1, 2, …"""

    terms: SumTerms
    identities: dict[int, Identity]
    registry: dict[int, bytes]
    real: set[int]
    gone: set[int]
    secrets: dict[int, bytes] = field(default_factory=dict)
    """By client: its seed and its mask secret."""
    shares: dict[int, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """By holder, by owner."""
    partners: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def advertise(self, client: int) -> bytes:
        """Says its keys."""
        self.secrets[client] = os.urandom(2 * SECRET)
        keys = Advertise(Agreement().public, self._mask_key(client).public)
        return self._say(MessageKind.ADVERTISE, client, keys.pack())

    def show(self, roster: bytes) -> None:
        """Takes in the roster, once for all."""
        self.view = RosterView(self.terms, Roster.parse(open_server(self.terms, MessageKind.ROSTER, roster)))

    def share(self, client: int) -> bytes:
        """Deals out shares; boxes that nobody opens are random bytes."""
        view, size, secrets = self.view, len(self.identities), self.secrets[client]
        holders = draw_holders(os.urandom(32), size, client, self.terms.degree).tolist()
        parts = dict(zip(holders, split(secrets, self.terms.threshold, len(holders)), strict=True))
        for holder, part in parts.items():
            self.shares[holder][client] = part
        self._link(client, holders)
        boxes = [
            make_box(view, Agreement(), client, holder, parts[holder]) if holder in self.real else os.urandom(SEALED)
            for holder in holders
            if holder != client
        ]
        digests = {holder: share_digests(view, client, holder, part) for holder, part in parts.items()}
        body = Shares(seed_commitment(self.terms, client, secrets[:SECRET]), digests, boxes).pack()
        return self._say(MessageKind.SHARES, client, body)

    def overhear(self, client: int, message: bytes) -> None:
        """Notes whom a real client drew."""
        shares = Shares.parse(Reader(open_client(self.terms, MessageKind.SHARES, message).body))
        self._link(client, list(shares.digests))

    def mask(self, client: int, vector: UIntArray, sharers: BoolArray) -> bytes:
        """Sends its vector under those masks that will not cancel within the crowd."""
        story, own = self.view.shared(sharers), self._mask_key(client)
        masks = [(self_mask(self.secrets[client][:SECRET], story, client), 1)]
        for other in self.partners[client] & (self.gone | self.real):
            agreed = own.with_(self.view.roster.entry(other).keys.mask_key)
            masks.append(pair_mask(agreed, story, client, other))
        masked = vector.copy()
        add_masks(masked, masks)
        return self._say(MessageKind.MASKED, client, Masked(masked, {}).pack(self.terms))

    def consent(self, client: int, sharers: BoolArray, alive: BoolArray) -> bytes:
        """Consents; tags that no real client reads are random bytes."""
        story, identity = self.view.agreed(sharers, alive, self.registry), self.identities[client]
        if not self.terms.tagged:
            names = identity.sign(fingerprint(self.terms, MessageKind.CONSENT, client, story))
        else:
            readers = np.zeros_like(alive)
            readers[list(self.real)] = True
            publics = {reader: self.identities[reader].public for reader in self.real}
            right = make_tags(self.view, client, story, readers, Pairs.of(self.view, readers, identity, publics))
            tags = np.frombuffer(os.urandom(TAG * int(alive.sum())), np.uint8).reshape(-1, TAG).copy()
            tags[readers[alive]] = np.frombuffer(right, np.uint8).reshape(-1, TAG)
            names = tags.tobytes()
        return self._say(MessageKind.CONSENT, client, Consent(story, names, {}).pack())

    def unmask(self, client: int, alive: BoolArray, of_real: dict[int, bytes]) -> bytes:
        """Hands back the shares that it holds; those of the real clients are in boxes that it cannot open."""
        held = self.shares[client] | of_real
        seeds = {owner: part[:SECRET] for owner, part in held.items() if alive[owner]}
        keys = {owner: part[SECRET:] for owner, part in held.items() if not alive[owner]}
        return self._say(MessageKind.UNMASK, client, Unmask(seeds, keys, None).pack())

    def _link(self, client: int, holders: list[int]) -> None:
        for other in holders:
            if other != client:
                self.partners[client].add(other)
                self.partners[other].add(client)

    def _mask_key(self, client: int) -> Agreement:
        return mask_agreement(self.terms, client, self.secrets[client][SECRET:])

    def _say(self, kind: MessageKind, client: int, body: bytes) -> bytes:
        return from_client(self.terms, kind, client, body, self.identities[client])

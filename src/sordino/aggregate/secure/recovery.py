"""How the server recovers, from the survivors' shares, the masks that did not cancel in the sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sordino.aggregate.secure.errors import BadShare, TooFewClients
from sordino.aggregate.secure.masks import Mask, opposite, pair_mask, self_mask
from sordino.aggregate.secure.messages import SECRET, Shares, Unmask
from sordino.aggregate.secure.shares import combine
from sordino.aggregate.secure.view import RosterView, mask_agreement, seed_commitment, share_digest
from sordino.types import BoolArray

ShareHolders = Mapping[int, list[int]]
"""By client: who holds its shares, in the order of their points."""


@dataclass(frozen=True)
class SharedSecrets:
    """All that a server knows of the clients' secrets when they unmask."""

    view: RosterView
    sharers: BoolArray
    alive: BoolArray
    shares: Mapping[int, Shares]
    answers: Mapping[int, Unmask]

    @property
    def holders(self) -> ShareHolders:
        """Who holds whose shares."""
        return {place: list(shares.digests) for place, shares in self.shares.items()}

    def partners(self) -> dict[int, set[int]]:
        """Returns, by client, who has added pairwise masks with it: those that it drew, and those that drew it."""
        partners: dict[int, set[int]] = {place: set() for place in self.shares}
        for place, holders in self.holders.items():
            for other in holders:
                if other != place and self.sharers[other]:
                    partners[place].add(other)
                    partners[other].add(place)
        return partners


def leftover_masks(known: SharedSecrets) -> list[Mask]:
    """Returns the masks to add to the sum so that only the survivors' vectors are left.

    A survivor's pairwise masks cancel against those of surviving partners. What is left of it is its self mask, from
    its seed; and its masks with partners that vanished, from *their* keys.
    """
    masks, view, story = list[Mask](), known.view, known.view.shared(known.sharers)
    seeds = {holder: answer.seeds for holder, answer in known.answers.items()}
    for place in np.flatnonzero(known.alive).tolist():
        client, seed = view.client(place), _secret(known, place, seeds)
        if seed_commitment(view.terms, client, seed) != known.shares[place].commitment:
            raise BadShare(f"client {client} shared another seed than it committed to: leave it out", client)
        masks.append((self_mask(seed, story, client), -1))
    keys, partners = {holder: answer.keys for holder, answer in known.answers.items()}, known.partners()
    for place in np.flatnonzero(known.sharers & ~known.alive).tolist():
        if near := [other for other in sorted(partners[place]) if known.alive[other]]:
            masks += _vanished(view, story, place, near, _secret(known, place, keys))
    return masks


def good_share(view: RosterView, owner: int, holder: int, share: bytes, shares: Shares, kind: int) -> bool:
    """Whether a holder returns the share (0: of the seed, 1: of the key) that its owner committed to."""
    digest = shares.digests[holder][kind * SECRET : (kind + 1) * SECRET]
    return share_digest(view, view.client(owner), view.client(holder), kind, share) == digest


def _vanished(view: RosterView, story: bytes, place: int, near: list[int], secret: bytes) -> list[Mask]:
    """Returns what takes off the masks that survivors added for a client that vanished."""
    vanished = view.roster.entry(place)
    keys = mask_agreement(view.terms, vanished.client, secret)
    if keys.public != vanished.keys.mask_key:
        raise BadShare(f"client {vanished.client} shared another key than it advertised: leave it out", vanished.client)
    entries = (view.roster.entry(other) for other in near)
    agreed = ((entry.client, keys.with_(entry.keys.mask_key)) for entry in entries)
    return [opposite(pair_mask(secret_, story, client, vanished.client)) for client, secret_ in agreed]


def _secret(known: SharedSecrets, place: int, answers: Mapping[int, Mapping[int, bytes]]) -> bytes:
    """Recovers one secret from the shares of those of its holders that answered."""
    threshold, holders = known.view.terms.threshold, list(known.shares[place].digests)
    held = {
        point: answers[holder][place]
        for point, holder in enumerate(holders, 1)
        if holder in answers and place in answers[holder]
    }
    if len(held) < threshold:
        raise TooFewClients(
            f"{len(held)} shares of a secret of client {known.view.client(place)} came back and {threshold} are "
            "needed: nothing is released; ask more clients, or tolerate fewer"
        )
    return combine(held, len(holders))

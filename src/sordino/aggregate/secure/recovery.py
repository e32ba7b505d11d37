"""How the server recovers, from the survivors' shares, the masks that did not cancel in the sum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sordino.aggregate.secure.errors import BadShare, TooFewClients
from sordino.aggregate.secure.keys import Agreement
from sordino.aggregate.secure.masks import Mask, opposite, pair_mask, self_mask
from sordino.aggregate.secure.messages import Shares, Unmask
from sordino.aggregate.secure.shares import combine
from sordino.aggregate.secure.view import View, commitment
from sordino.types import BoolArray


def leftover_masks(
    view: View, sharers: BoolArray, alive: BoolArray, shares: Mapping[int, Shares], answers: Mapping[int, Unmask]
) -> list[Mask]:
    """Returns the masks to add to the sum so that only the survivors' vectors are left.

    A survivor's pairwise masks cancel against those of surviving neighbours. What is left of it is its self mask, from
    its seed; and its masks with neighbours that vanished, from *their* keys.
    """
    masks = list[Mask]()
    seeds = {holder: answer.seeds for holder, answer in answers.items()}
    for place in np.flatnonzero(alive).tolist():
        client, seed = view.client(place), _secret(view, place, seeds)
        if commitment(view.terms, client, seed) != shares[place].commitment:
            raise BadShare(f"the shares of client {client}'s seed do not give what it committed to: abort the round")
        masks.append((self_mask(seed, view.terms.context, client), -1))
    keys = {holder: answer.keys for holder, answer in answers.items()}
    for place in np.flatnonzero(sharers & ~alive).tolist():
        if near := view.near(place, alive).tolist():
            masks += _vanished(view, place, near, _secret(view, place, keys))
    return masks


def _vanished(view: View, place: int, near: list[int], key: bytes) -> list[Mask]:
    """Returns what takes off the masks that survivors added for a client that vanished."""
    entries, keys = view.roster.entries, Agreement.of(key)
    vanished = entries[place]
    if keys.public != vanished.keys.mask_key:
        raise BadShare(f"the shares of client {vanished.client}'s key do not give what it advertised: abort the round")
    agreed = ((entries[other].client, keys.with_(entries[other].keys.mask_key)) for other in near)
    return [opposite(pair_mask(secret, view.terms.context, client, vanished.client)) for client, secret in agreed]


def _secret(view: View, place: int, answers: Mapping[int, Mapping[int, bytes]]) -> bytes:
    """Recovers one secret from the shares of those of its holders that answered."""
    holders = view.graph.holders(place).tolist()
    held = {point: answers[holder][place] for point, holder in enumerate(holders, 1) if holder in answers}
    if len(held) < view.terms.threshold:
        raise TooFewClients(
            f"{len(held)} shares of a secret of client {view.client(place)} came back and {view.terms.threshold} are "
            "needed: nothing is released; ask more clients, or tolerate fewer"
        )
    return combine(held, len(holders))

"""How the server recovers, from the survivors' shares, the masks that did not cancel in the sum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sordino.aggregate.secure.agreeing import Wanted, agree_all
from sordino.aggregate.secure.errors import BadShare
from sordino.aggregate.secure.masks import Mask, opposite, pair_mask, self_mask
from sordino.aggregate.secure.share_table import ShareTable
from sordino.aggregate.secure.view import RosterView, mask_agreement, seed_commitment
from sordino.types import BoolArray, IntArray


def leftover_masks(table: ShareTable, sharers: BoolArray, alive: BoolArray) -> list[Mask]:
    """Returns the masks to add to the sum so that only the survivors' vectors are left.

    A survivor's pairwise masks cancel against those of surviving partners. What is left of it is its self mask, from
    its seed; and its masks with partners that vanished, from *their* keys.
    """
    masks, view, story = list[Mask](), table.view, table.view.shared(sharers)
    survivors = np.flatnonzero(alive)
    for place, seed in zip(survivors.tolist(), table.secrets(survivors), strict=True):
        client = view.client(place)
        if seed_commitment(view.terms, client, seed) != table.commitments[table.rows[place]]:
            raise BadShare(f"client {client} shared another seed than it committed to: leave it out", client)
        masks.append((self_mask(seed, story, client), -1))
    near = {place: left_behind(table, place, alive) for place in np.flatnonzero(sharers & ~alive).tolist()}
    vanished = [place for place, others in near.items() if len(others)]
    keys = dict(zip(vanished, table.secrets(np.array(vanished, np.int64)), strict=True))
    return masks + vanished_masks(view, story, {place: near[place].tolist() for place in vanished}, keys)


def left_behind(table: ShareTable, place: int, alive: BoolArray) -> IntArray:
    """Returns the survivors that have masks with a client that vanished: those that it drew, and that drew it."""
    _, drew = table.held(place)
    partners: IntArray = np.union1d(table.holders[table.rows[place]], drew)
    return partners[alive[partners]]


def vanished_masks(
    view: RosterView, story: bytes, near: Mapping[int, list[int]], secrets: Mapping[int, bytes]
) -> list[Mask]:
    """Returns what takes off the masks that survivors added for clients that vanished, given the latters' secrets."""
    wanted = list[Wanted]()
    for place, others in near.items():
        vanished, keys = view.client(place), mask_agreement(view.terms, view.client(place), secrets[place])
        if keys.public != view.roster.mask_key(place):
            raise BadShare(f"client {vanished} shared another key than it advertised: leave it out", vanished)
        wanted.append((keys.secret, [view.roster.mask_key(other) for other in others]))
    return [
        opposite(pair_mask(secret, story, view.client(other), view.client(place)))
        for (place, others), agreed in zip(near.items(), agree_all(wanted), strict=True)
        for other, secret in zip(others, agreed, strict=True)
    ]

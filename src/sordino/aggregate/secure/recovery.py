"""How the server recovers, from the survivors' shares, the masks that did not cancel in the sum."""

from __future__ import annotations

import numpy as np

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
    vanished = np.array([place for place, others in near.items() if len(others)], np.int64)
    for place, secret in zip(vanished.tolist(), table.secrets(vanished), strict=True):
        masks += vanished_masks(view, story, place, near[place].tolist(), secret)
    return masks


def left_behind(table: ShareTable, place: int, alive: BoolArray) -> IntArray:
    """Returns the survivors that have masks with a client that vanished: those that it drew, and that drew it."""
    drawn, drew = table.holders[table.rows[place]], table.owners_of(table.cells(place))
    partners: IntArray = np.union1d(drawn, drew)
    return partners[alive[partners]]


def vanished_masks(view: RosterView, story: bytes, place: int, near: list[int], secret: bytes) -> list[Mask]:
    """Returns what takes off the masks that survivors added for a client that vanished."""
    vanished = view.roster.entry(place)
    keys = mask_agreement(view.terms, vanished.client, secret)
    if keys.public != vanished.keys.mask_key:
        raise BadShare(f"client {vanished.client} shared another key than it advertised: leave it out", vanished.client)
    entries = (view.roster.entry(other) for other in near)
    agreed = ((entry.client, keys.with_(entry.keys.mask_key)) for entry in entries)
    return [opposite(pair_mask(secret_, story, client, vanished.client)) for client, secret_ in agreed]

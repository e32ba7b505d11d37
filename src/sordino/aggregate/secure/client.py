"""A client of one secure sum: bytes in, bytes out, one method a stage, each of which can be called once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sordino.aggregate.integers import UIntArray, reduce, word
from sordino.aggregate.secure.checks import check_enough, check_flags, check_request, check_roster
from sordino.aggregate.secure.errors import OutOfTurn, SplitView, WrongVector
from sordino.aggregate.secure.keys import SIGNATURE, Agreement, Identity, seal, unseal
from sordino.aggregate.secure.masks import add_masks, pair_mask, self_mask
from sordino.aggregate.secure.messages import (
    SECRET,
    Advertise,
    Consent,
    Entry,
    Inbox,
    Masked,
    Request,
    Roster,
    Shares,
    Survivors,
    Unmask,
)
from sordino.aggregate.secure.shares import split
from sordino.aggregate.secure.terms import Terms
from sordino.aggregate.secure.view import View, commitment
from sordino.aggregate.secure.wire import Kind, from_client, open_server
from sordino.types import IntArray

Reveal = Callable[[int], IntArray]
"""Given the number of survivors, returns the part of a client's vector that it reveals, to be subtracted."""


class Client:
    """One client's side of the protocol: `advertise` → `share` → `mask` → `consent` → `unmask`.

    Args:
        terms: what was agreed for this round.
        client: this client's id.
        identity: its signing key.
        registry: public signing keys by id. Without one the server's word is taken for who is who.

    **Formal guarantees**: keys, seeds and masks are drawn fresh from the operating system for this object and never
    leave it, except as shares sealed for the neighbours. It reveals at most one of the two secrets of a peer, and
    only in a story (roster, sharers, survivors) to which `threshold` holders around it have put their names; it
    reveals nothing if fewer than `smallest_cohort` clients are in the sum. After any error it says nothing more.
    **Edge cases**: a stage out of order, or for the second time, raises `OutOfTurn`.
    **Reference**: Bonawitz et al. (2017), Figure 4 (with the consistency check); Bell et al. (2020) for the graph.
    """

    def __init__(
        self, terms: Terms, client: int, identity: Identity, registry: Mapping[int, bytes] | None = None
    ) -> None:
        self.terms, self.client = terms, client
        self._identity, self._registry = identity, registry
        self._due: Kind | None = Kind.ADVERTISE
        self._share_keys, self._mask_keys, self._seed = Agreement(), Agreement(), os.urandom(SECRET)

    def advertise(self) -> bytes:
        """Returns this round's public keys, signed."""
        with self._stage(Kind.ADVERTISE, Kind.SHARES):
            keys = Advertise(self._share_keys.public, self._mask_keys.public, self._identity.public)
            message = self._send(Kind.ADVERTISE, keys.pack())
            self._own = Entry(self.client, keys, message[-SIGNATURE:])
            return message

    def share(self, roster: bytes) -> bytes:
        """Checks the key list, and returns shares of this client's two secrets, sealed for its neighbours."""
        with self._stage(Kind.SHARES, Kind.MASKED):
            self._view = View(self.terms, Roster.parse(open_server(self.terms, Kind.ROSTER, roster)))
            check_roster(self._view, self._own, self._registry)
            holders = self._view.graph.holders(self._place)
            shares = split(self._seed + self._mask_keys.secret, self.terms.threshold, len(holders))
            mine = dict(zip(holders.tolist(), shares, strict=True))
            self._held = {self._place: mine.pop(self._place)[:SECRET]}  # nobody will need a survivor's own key share
            self._agreed = {place: self._share_keys.with_(self._entry(place).keys.share_key) for place in mine}
            sealed = [self._seal(place, secrets) for place, secrets in mine.items()]
            return self._send(Kind.SHARES, Shares(commitment(self.terms, self.client, self._seed), sealed).pack())

    def mask(self, inbox: bytes, vector: UIntArray) -> bytes:
        """Takes in the neighbours' shares, and returns the vector (residues modulo 2^modulus_bits) under its masks."""
        with self._stage(Kind.MASKED, Kind.CONSENT):
            message = Inbox.parse(open_server(self.terms, Kind.INBOX, inbox))
            self._sharers = check_flags(self._view, message.sharers)
            near = self._view.near(self._place, self._sharers).tolist()
            if not self._sharers[self._place] or len(message.sealed) != len(near):
                raise SplitView(f"the server's list of who shared secrets does not fit what client {self.client} got")
            self._held |= {place: self._unseal(place, box) for place, box in zip(near, message.sealed, strict=True)}
            check_enough(self.terms, int(self._sharers.sum()))
            return self._send(Kind.MASKED, Masked(self._masked(vector, near)).pack(self.terms))

    def consent(self, survivors: bytes) -> bytes:
        """Puts this client's name to the server's story of who is alive."""
        with self._stage(Kind.CONSENT, Kind.UNMASK):
            message = Survivors.parse(open_server(self.terms, Kind.SURVIVORS, survivors))
            self._alive = check_flags(self._view, message.alive)
            if not self._alive[self._place] or (self._alive & ~self._sharers).any():
                raise SplitView("the server counts survivors who never shared secrets, or does not count this client")
            check_enough(self.terms, int(self._alive.sum()))
            return self._send(Kind.CONSENT, Consent(self._view.agreed(self._sharers, self._alive)).pack())

    def unmask(self, request: bytes, reveal: Reveal | None = None) -> bytes:
        """Returns shares of the survivors' seeds and the vanished clients' keys, and what is removable."""
        with self._stage(Kind.UNMASK, None):
            asked = Request.parse(open_server(self.terms, Kind.REQUEST, request))
            check_request(self._view, self._place, self._sharers, self._alive, asked)
            seeds, keys = dict[int, bytes](), dict[int, bytes]()
            for place, held in self._held.items():
                if self._alive[place]:
                    seeds[place] = held[:SECRET]
                else:
                    keys[place] = held[SECRET:]
            if self.terms.reveals != (reveal is not None):
                raise WrongVector(
                    "the terms say whether clients reveal a removable part, and this client does otherwise"
                )
            removable = reveal(int(self._alive.sum())) if reveal else None
            return self._send(Kind.UNMASK, Unmask(seeds, keys, removable).pack())

    @property
    def _place(self) -> int:
        return self._view.places[self.client]

    @contextmanager
    def _stage(self, now: Kind, then: Kind | None) -> Iterator[None]:
        """Lets a stage happen once, in its order; an error ends the round for this client."""
        if self._due is not now:
            due = "nothing" if self._due is None else self._due.name
            raise OutOfTurn(f"client {self.client} was asked for {now.name} when {due} was due")
        self._due = None
        yield
        self._due = then

    def _send(self, kind: Kind, body: bytes) -> bytes:
        return from_client(self.terms, kind, self.client, body, self._identity)

    def _entry(self, place: int) -> Entry:
        return self._view.roster.entries[place]

    def _seal(self, place: int, secrets: bytes) -> bytes:
        return seal(self._agreed[place], self.terms.context, self.client, self._entry(place).client, secrets)

    def _unseal(self, place: int, box: bytes) -> bytes:
        return unseal(self._agreed[place], self.terms.context, self._entry(place).client, self.client, box)

    def _masked(self, vector: UIntArray, near: list[int]) -> UIntArray:
        bits, context = self.terms.modulus_bits, self.terms.context
        if (
            vector.shape != (self.terms.width,)
            or vector.dtype != word(bits)
            or reduce(vector.max(), bits) != vector.max()
        ):
            raise WrongVector(
                f"a vector must have {self.terms.width} residues modulo 2^{bits}, as {word(bits).__name__}"
            )
        masks = [(self_mask(self._seed, context, self.client), 1)]
        for place in near:
            agreed = self._mask_keys.with_(self._entry(place).keys.mask_key)
            masks.append(pair_mask(agreed, context, self.client, self._entry(place).client))
        masked = vector.copy()
        add_masks(masked, masks)
        return reduce(masked, bits)

"""The server of one secure sum: takes in the clients' messages of a stage, then closes it and has answers to send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sordino.aggregate.integers import UIntArray, reduce, to_residues, word
from sordino.aggregate.secure.checks import check_enough
from sordino.aggregate.secure.errors import ForeignShare, KeySwapped, Malformed, OutOfTurn, SplitView, TooFewClients
from sordino.aggregate.secure.masks import add_masks
from sordino.aggregate.secure.messages import (
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
from sordino.aggregate.secure.recovery import leftover_masks
from sordino.aggregate.secure.terms import Terms
from sordino.aggregate.secure.view import View
from sordino.aggregate.secure.wire import Kind, Reader, Signed, from_server, open_client
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class Opened:
    """What a finished secure sum shows: the total of the survivors' vectors, less what `responders` revealed."""

    total: UIntArray
    survivors: IntArray
    responders: IntArray


class Server:
    """The server's side of the protocol: `receive` messages of the stage that is open, `close` it, and so five times.

    Args:
        terms: what was agreed for this round.
        invited: ids of the clients that may take part.
        registry: public signing keys by id, if identities are registered.

    **Formal guarantees**: a message that is refused changes nothing; one that is accepted was signed by its sender, and
    is the only one of its sender and stage. The total is exact for every set of survivors for which `close` and `open`
    do not raise.
    **Edge cases**: `close` raises `TooFewClients` when the stage has too few messages; the server is then done for.
    **Reference**: Bonawitz et al. (2017), Figure 4; Bell et al. (2020), Algorithm 2.
    """

    def __init__(self, terms: Terms, invited: IntArray, registry: Mapping[int, bytes] | None = None) -> None:
        self.terms, self.due = terms, Kind.ADVERTISE
        self._invited, self._registry = frozenset(invited.tolist()), registry
        self._entries = dict[int, Entry]()
        self._shares, self._unmasked = dict[int, Shares](), dict[int, Unmask]()
        self._consents, self._awaited = dict[int, bytes](), set[int]()
        self._total = np.zeros(terms.width, word(terms.modulus_bits))
        self._removed = np.zeros_like(self._total)

    def receive(self, message: bytes) -> int:
        """Takes in one client's message of the open stage, and returns its sender."""
        signed = open_client(self.terms, self.due, message)
        take = {
            Kind.ADVERTISE: self._take_keys,
            Kind.SHARES: self._take_shares,
            Kind.MASKED: self._take_masked,
            Kind.CONSENT: self._take_consent,
            Kind.UNMASK: self._take_unmasking,
        }
        take[self.due](signed)
        return signed.sender

    def close(self) -> dict[int, bytes]:
        """Ends the open stage, and returns what to send to each client that is still there."""
        end = {
            Kind.ADVERTISE: self._close_keys,
            Kind.SHARES: self._close_shares,
            Kind.MASKED: self._close_masked,
            Kind.CONSENT: self._close_consents,
        }
        if self.due not in end:
            raise OutOfTurn("the last stage is open: call `open` to finish the sum")
        return end[self.due]()

    def open(self) -> Opened:
        """Ends the last stage: takes all masks off, and what was revealed."""
        if self.due is not Kind.UNMASK:
            raise OutOfTurn(f"the sum cannot be opened while {self.due.name} is due")
        bits = self.terms.modulus_bits
        add_masks(self._total, leftover_masks(self._view, self._sharers, self._alive, self._shares, self._unmasked))
        total = reduce(self._total - self._removed, bits)
        return Opened(total, self._view.clients(self._alive), self._view.clients(self._flags(self._unmasked)))

    def _take_keys(self, signed: Signed) -> None:
        keys = Advertise.parse(Reader(signed.body))
        if signed.sender not in self._invited or signed.sender in self._entries:
            raise OutOfTurn(f"client {signed.sender} was not invited, or has sent its keys already: drop the message")
        if self._registry is not None and self._registry.get(signed.sender) != keys.identity:
            raise KeySwapped(f"client {signed.sender} signs with another identity than the registered one")
        signed.verify(keys.identity)
        self._entries[signed.sender] = Entry(signed.sender, keys, signed.signature)

    def _close_keys(self) -> dict[int, bytes]:
        check_enough(self.terms, len(self._entries))
        self._view = View(self.terms, Roster(tuple(self._entries[client] for client in sorted(self._entries))))
        message = from_server(self.terms, Kind.ROSTER, self._view.roster.pack())
        return self._next(Kind.SHARES, dict.fromkeys(range(self._view.size), message))

    def _take_shares(self, signed: Signed) -> None:
        place, shares = self._place(signed), Shares.parse(Reader(signed.body))
        if len(shares.sealed) != len(self._view.graph.neighbours(place)):
            raise Malformed(f"client {signed.sender} sent {len(shares.sealed)} shares, not one for each neighbour")
        self._shares[place] = shares
        self._awaited.discard(place)

    def _close_shares(self) -> dict[int, bytes]:
        check_enough(self.terms, len(self._shares))
        self._sharers = self._flags(self._shares)
        boxes: dict[int, list[bytes]] = {place: [] for place in self._shares}
        for sender in sorted(self._shares):
            neighbours = self._view.graph.neighbours(sender).tolist()
            for recipient, box in zip(neighbours, self._shares[sender].sealed, strict=True):
                if recipient in boxes:
                    boxes[recipient].append(box)
        inboxes = {place: Inbox(self._sharers, sealed).pack() for place, sealed in boxes.items()}
        return self._next(Kind.MASKED, {p: from_server(self.terms, Kind.INBOX, body) for p, body in inboxes.items()})

    def _take_masked(self, signed: Signed) -> None:
        place, masked = self._place(signed), Masked.parse(Reader(signed.body), self.terms)
        self._total += masked.vector
        self._awaited.discard(place)

    def _close_masked(self) -> dict[int, bytes]:
        self._alive = self._sharers & ~self._flags(self._awaited)
        check_enough(self.terms, int(self._alive.sum()))
        message = from_server(self.terms, Kind.SURVIVORS, Survivors(self._alive).pack())
        return self._next(Kind.CONSENT, dict.fromkeys(np.flatnonzero(self._alive).tolist(), message))

    def _take_consent(self, signed: Signed) -> None:
        place, consent = self._place(signed), Consent.parse(Reader(signed.body))
        if consent.view != self._view.agreed(self._sharers, self._alive):
            raise SplitView(f"client {signed.sender} consents to another story of who is alive: drop the message")
        self._consents[place] = signed.signature
        self._awaited.discard(place)

    def _close_consents(self) -> dict[int, bytes]:
        if len(self._consents) < self.terms.threshold:
            raise TooFewClients(
                f"{len(self._consents)} clients consented and {self.terms.threshold} are needed: nothing is released"
            )
        consented, requests = self._flags(self._consents), dict[int, bytes]()
        for place in self._consents:
            enough = self._view.near(place, consented)[: self.terms.threshold - 1].tolist()  # its own makes it t
            consents = {other: self._consents[other] for other in enough}
            body = Request(self._alive, self._sharers & ~self._alive, consents).pack()
            requests[place] = from_server(self.terms, Kind.REQUEST, body)
        return self._next(Kind.UNMASK, requests)

    def _take_unmasking(self, signed: Signed) -> None:
        place, unmask = self._place(signed), Unmask.parse(Reader(signed.body), self.terms)
        seeds = {*self._view.near(place, self._alive).tolist(), place}
        keys = set(self._view.near(place, self._sharers & ~self._alive).tolist())
        if unmask.seeds.keys() != seeds or unmask.keys.keys() != keys:
            raise ForeignShare(f"client {signed.sender} sent shares that it was not asked for, or not all: drop them")
        if unmask.removable is not None:
            self._removed += to_residues(unmask.removable, self.terms.modulus_bits)
        self._unmasked[place] = replace(unmask, removable=None)
        self._awaited.discard(place)

    def _place(self, signed: Signed) -> int:
        """Returns the place of a sender whose message is due, and signed."""
        place = self._view.places.get(signed.sender)
        if place is None or place not in self._awaited:
            raise OutOfTurn(f"client {signed.sender} sent {self.due.name} though nothing is due from it: drop it")
        signed.verify(self._view.roster.entries[place].keys.identity)
        return place

    def _flags(self, places: Iterable[int]) -> BoolArray:
        flags = np.zeros(self._view.size, bool)
        flags[list(places)] = True
        return flags

    def _next(self, due: Kind, answers: Mapping[int, bytes]) -> dict[int, bytes]:
        """Opens the next stage, in which those who are answered are expected."""
        self.due, self._awaited = due, set(answers)
        return {self._view.client(place): message for place, message in answers.items()}

"""The server of one secure sum: takes in the clients' messages of a stage, then closes it and has answers to send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sordino.aggregate.integers import UIntArray, reduce, to_residues, word
from sordino.aggregate.secure.checks import KeyRegistry, check_enough
from sordino.aggregate.secure.complaints import Complaints
from sordino.aggregate.secure.cores import on_all_cores
from sordino.aggregate.secure.errors import (
    BadShare,
    BadSignature,
    KeySwapped,
    Malformed,
    OutOfTurn,
    SplitView,
)
from sordino.aggregate.secure.keys import KEY, usable, verify
from sordino.aggregate.secure.masks import add_masks
from sordino.aggregate.secure.messages import (
    Advertise,
    Consent,
    Inbox,
    Masked,
    Roster,
    RosterEntry,
    Shares,
    SurvivorList,
    Unmask,
    UnmaskRequest,
)
from sordino.aggregate.secure.named import named
from sordino.aggregate.secure.recovery import leftover_masks
from sordino.aggregate.secure.share_table import ShareTable
from sordino.aggregate.secure.tags import check_size, tags_by_reader
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.view import RosterView
from sordino.aggregate.secure.wire import MessageKind, Reader, Signed, fingerprint, from_server, open_client
from sordino.errors import ProtocolError
from sordino.types import BoolArray, IntArray

_Given = TypeVar("_Given")
_Got = TypeVar("_Got")


@dataclass(frozen=True)
class Opened:
    """What a finished secure sum shows: the total of the survivors' vectors, less what `responders` revealed."""

    total: UIntArray
    survivors: IntArray
    responders: IntArray
    blamed: Mapping[int, str]
    """Who broke the rules, by id, and how: leave them out of the next round."""


class SumServer:
    """The server's side of the protocol: `receive` messages of the stage that is open, `close` it, and so five times.

    Args:
        terms: what was agreed for this round.
        registry: public signing keys by id.

    **Formal guarantees**: a message that is refused changes nothing but `blamed`; one that is accepted was signed by
    its sender, and is the only one of its sender and stage. The total is exact for every set of survivors for which
    `close` and `open` do not raise. Nobody is blamed who kept to the protocol (if no more than `terms.corrupt` lie).
    **Edge cases**: `close` raises `TooFewClients` when the stage has too few messages, `open` raises `BadShare` when a
    client has dealt bad shares of its own secrets (and names it): the server is then done for.
    **Reference**: Bonawitz et al. (2017), Figure 4; Bell et al. (2020), Algorithm 3.
    """

    def __init__(self, terms: SumTerms, registry: KeyRegistry) -> None:
        self.terms, self.due = terms, MessageKind.ADVERTISE
        self.blamed = dict[int, str]()
        self._registry, self._finished = registry, False
        self._entries, self._keys = dict[int, RosterEntry](), set[bytes]()
        self._shares, self._responders = dict[int, Shares](), set[int]()
        self._consents, self._awaited = dict[int, bytes](), set[int]()
        self._total = np.zeros(terms.width, word(terms.modulus_bits))
        self._removed = np.zeros_like(self._total)

    def receive(self, message: bytes) -> int:
        """Takes in one client's message of the open stage, and returns its sender."""
        return self._take(self._opened(message))

    def receive_all(self, messages: Sequence[bytes]) -> list[int | ProtocolError]:
        """Takes in many clients' messages of the open stage, as `receive` does one after the other.

        Signatures are verified on all cores. Returns, for each message, its sender, or why it was refused.
        """
        opened = [_attempt(self._opened, message) for message in messages]
        on_all_cores(self._look, opened)
        return [_attempt(self._take, each) if isinstance(each, Signed) else each for each in opened]

    def _opened(self, message: bytes) -> Signed:
        if self._finished:
            raise OutOfTurn("the sum is finished: start another attempt")
        return open_client(self.terms, self.due, message)

    def _look(self, signed: Signed | ProtocolError) -> None:
        """Verifies signatures ahead of time: they are then remembered (see `keys.verify`)."""
        if isinstance(signed, Signed) and self._expects(signed.sender) and signed.sender in self._registry:
            with suppress(ProtocolError):
                signed.verify(self._registry[signed.sender])
                if self.due is MessageKind.CONSENT:
                    self._check_names(signed.sender, Consent.parse(Reader(signed.body)).names)

    def _take(self, signed: Signed) -> int:
        take = {
            MessageKind.ADVERTISE: self._take_keys,
            MessageKind.SHARES: self._take_shares,
            MessageKind.MASKED: self._take_masked,
            MessageKind.CONSENT: self._take_consent,
            MessageKind.UNMASK: self._take_unmasking,
        }
        self._check_sender(signed)
        try:
            take[self.due](signed)
        except ProtocolError as error:
            self.blamed.setdefault(signed.sender, f"{self.due.name}: {error}")
            raise
        return signed.sender

    def close(self) -> dict[int, bytes]:
        """Ends the open stage, and returns what to send to each client that is still there."""
        end = {
            MessageKind.ADVERTISE: self._close_keys,
            MessageKind.SHARES: self._close_shares,
            MessageKind.MASKED: self._close_masked,
            MessageKind.CONSENT: self._close_consents,
        }
        if self.due not in end:
            raise OutOfTurn("the last stage is open: call `open` to finish the sum")
        return end[self.due]()

    def open(self) -> Opened:
        """Ends the last stage: takes all masks off, and what was revealed. It can be called once."""
        if self.due is not MessageKind.UNMASK or self._finished:
            raise OutOfTurn(f"the sum cannot be opened while {self.due.name} is due, or for a second time")
        self._finished = True
        try:
            masks = leftover_masks(self._table, self._sharers, self._alive)
        except BadShare as error:
            if error.client is not None:
                self.blamed.setdefault(error.client, str(error))
            raise
        add_masks(self._total, masks)
        total = reduce(self._total - self._removed, self.terms.modulus_bits)
        responders = self._view.clients(self._flags(self._responders))
        return Opened(total, self._view.clients(self._alive), responders, dict(self.blamed))

    def _check_sender(self, signed: Signed) -> None:
        """Refuses a message that is not due from its sender, or that it did not sign; it is then nobody's fault."""
        sender = signed.sender
        if not self._expects(sender):
            raise OutOfTurn(f"client {sender} sent {self.due.name} though nothing is due from it: drop it")
        identity = self._registry.get(sender)
        if identity is None:
            raise KeySwapped(f"client {sender} is not registered: drop the message")
        signed.verify(identity)
        if self.due is MessageKind.ADVERTISE:
            self._check_fresh(signed)

    def _expects(self, sender: int) -> bool:
        if self.due is MessageKind.ADVERTISE:
            return sender in self.terms.invited and sender not in self._entries
        return self._view.places.get(sender) in self._awaited

    def _check_fresh(self, signed: Signed) -> None:
        """Refuses a key that somebody else has sent: one of them copied it, and it cannot be told who."""
        keys = {bytes(signed.body[:KEY]), bytes(signed.body[KEY : 2 * KEY])}
        if keys & self._keys:
            raise KeySwapped(f"client {signed.sender} sent a key that another client has sent already: drop it")

    def _take_keys(self, signed: Signed) -> None:
        keys = Advertise.parse(Reader(signed.body))
        if not (usable(keys.share_key) and usable(keys.mask_key)) or keys.share_key == keys.mask_key:
            raise KeySwapped(
                f"client {signed.sender} sent keys that are not canonical, that no secret can be agreed with, or the "
                "same one twice: drop it"
            )
        self._entries[signed.sender] = RosterEntry(signed.sender, keys, signed.signature)
        self._keys |= {keys.share_key, keys.mask_key}

    def _close_keys(self) -> dict[int, bytes]:
        check_enough(self.terms, len(self._entries))
        entries = [self._entries[client] for client in sorted(self._entries)]
        self._view = RosterView(self.terms, Roster.of(entries))
        message = from_server(self.terms, MessageKind.ROSTER, self._view.roster.pack())
        return self._next(MessageKind.SHARES, dict.fromkeys(range(self._view.size), message))

    def _take_shares(self, signed: Signed) -> None:
        place, shares = self._view.places[signed.sender], Shares.parse(Reader(signed.body))
        wanted = min(self.terms.degree + 1, self._view.size) if self.terms.degree else self._view.size
        holders = named(shares.digests).places.tolist()
        if len(holders) != wanted or place not in holders or holders[-1] >= self._view.size:
            raise Malformed(f"client {signed.sender} has other holders of its shares than {wanted} with itself")
        if len(shares.sealed) != wanted - 1:
            raise Malformed(f"client {signed.sender} sent {len(shares.sealed)} boxes, not one for each holder")
        self._shares[place] = shares
        self._awaited.discard(place)

    def _close_shares(self) -> dict[int, bytes]:
        check_enough(self.terms, len(self._shares))
        self._sharers, self._table = self._flags(self._shares), ShareTable.of(self._view, self._shares)
        self._complaints = Complaints(self._table, self._registry)
        inboxes = Inbox.pack_all(self._sharers, self._table.inboxes())
        messages = {place: from_server(self.terms, MessageKind.INBOX, inbox) for place, inbox in inboxes.items()}
        self._shares = {}
        return self._next(MessageKind.MASKED, messages)

    def _take_masked(self, signed: Signed) -> None:
        place, masked = self._view.places[signed.sender], Masked.parse(Reader(signed.body), self.terms)
        self._complaints.take(place, masked.complaints)
        self._total += masked.vector
        self._awaited.discard(place)

    def _close_masked(self) -> dict[int, bytes]:
        self._alive = self._sharers & ~self._flags(self._awaited)
        check_enough(self.terms, int(self._alive.sum()))
        self._story = self._view.agreed(self._sharers, self._alive, self._registry)
        plain = from_server(self.terms, MessageKind.SURVIVORS, SurvivorList(self._alive, {}).pack())
        answers = dict.fromkeys(np.flatnonzero(self._alive).tolist(), plain)
        for accused in answers.keys() & self._complaints.against.keys():
            body = SurvivorList(self._alive, self._complaints.against[accused]).pack()
            answers[accused] = from_server(self.terms, MessageKind.SURVIVORS, body)
        return self._next(MessageKind.CONSENT, answers)

    def _take_consent(self, signed: Signed) -> None:
        place, consent = self._view.places[signed.sender], Consent.parse(Reader(signed.body))
        if consent.story != self._story:
            raise SplitView(f"client {signed.sender} consents to another story of who is alive: drop the message")
        self._check_names(signed.sender, consent.names)
        self._blame(self._complaints.judged(place, consent.openings))
        self._consents[place] = consent.names
        self._awaited.discard(place)

    def _check_names(self, client: int, names: bytes) -> None:
        """Refuses a signature that others would refuse; tags can be checked by those that they are for alone."""
        if self.terms.tagged:
            return check_size(self._alive, names, client)
        signed = fingerprint(self.terms, MessageKind.CONSENT, client, self._story)
        try:
            verify(self._registry[client], names, signed, client)
        except BadSignature as error:
            raise SplitView(f"client {client} did not sign the story that it consents to") from error
        return None

    def _close_consents(self) -> dict[int, bytes]:
        self._blame(self._complaints.unanswered(self._consents))
        check_enough(self.terms, len(self._consents))
        if self.terms.tagged:
            read = tags_by_reader(self._alive, self._consents)
            return self._next(MessageKind.UNMASK, {reader: self._request(tags) for reader, tags in read.items()})
        return self._next(MessageKind.UNMASK, dict.fromkeys(self._consents, self._request(self._consents)))

    def _blame(self, found: Iterable[tuple[int, str]]) -> None:
        """Notes who broke the rules, and how; the first reason counts."""
        for client, why in found:
            self.blamed.setdefault(client, why)

    def _request(self, consents: Mapping[int, bytes]) -> bytes:
        return from_server(self.terms, MessageKind.REQUEST, UnmaskRequest(consents).pack())

    def _take_unmasking(self, signed: Signed) -> None:
        place, unmask = self._view.places[signed.sender], Unmask.parse(Reader(signed.body), self.terms)
        self._table.take(place, unmask, self._alive, self._complaints.denied(place))
        if unmask.removable is not None:
            self._removed += to_residues(unmask.removable, self.terms.modulus_bits)
        self._responders.add(place)
        self._awaited.discard(place)

    def _flags(self, places: Iterable[int]) -> BoolArray:
        flags = np.zeros(self._view.size, bool)
        flags[list(places)] = True
        return flags

    def _next(self, due: MessageKind, answers: Mapping[int, bytes]) -> dict[int, bytes]:
        """Opens the next stage, in which those who are answered are expected."""
        self.due, self._awaited = due, set(answers)
        return {self._view.client(place): message for place, message in answers.items()}


def _attempt(call: Callable[[_Given], _Got], given: _Given) -> _Got | ProtocolError:
    """Returns what a call returns, or why it refused."""
    try:
        return call(given)
    except ProtocolError as error:
        return error

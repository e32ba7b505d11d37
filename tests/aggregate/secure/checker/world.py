"""A federation of real clients at which a lying server can try things out: each answer is that of a `SumClient`.

Clients are asked by way of their saved states, so that every lie can be told to the same client in the same situation.
What one client answers depends on what it is told and on nothing else, so answers are remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from sordino.aggregate.secure import roster_part as side_module
from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.keeper import MemoryKeeper
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.messages import (
    DIGEST,
    SEALED,
    Advertise,
    Consent,
    Inbox,
    Roster,
    RosterEntry,
    Shares,
    SurvivorList,
    UnmaskRequest,
)
from sordino.aggregate.secure.policy import SumPolicy
from sordino.aggregate.secure.state import SumState
from sordino.aggregate.secure.tags import Pairs, make_tags
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.view import RosterView
from sordino.aggregate.secure.wire import MessageKind, Reader, fingerprint, from_server, open_client
from sordino.errors import ProtocolError

Some = frozenset[int]
IDENTITIES = {client: Identity() for client in range(8)}
REGISTRY = {client: identity.public for client, identity in IDENTITIES.items()}


@dataclass(eq=False)
class World:
    """Terms, who is corrupt, who else is registered, and (on a sparse graph) who draws whom."""

    terms: SumTerms
    policy: SumPolicy
    corrupt: Some = frozenset()
    strangers: Some = frozenset()
    graph: Mapping[int, Some] | None = None
    asked: int = field(default=0, init=False)

    @cached_property
    def everybody(self) -> Some:
        return frozenset(self.terms.clients) | self.strangers

    @cached_property
    def honest(self) -> Some:
        return self.everybody - self.corrupt

    def drawn(self, client: int, roster: Some) -> Some:
        """Who holds a client's shares, itself included."""
        return (self.graph[client] | {client}) if self.graph else roster

    @cached_property
    def _first(self) -> dict[int, tuple[SumState, RosterEntry]]:
        """Everybody's state and keys after the first message; strangers are made to believe that they are invited."""
        begun = {}
        for client in sorted(self.everybody):
            identity = IDENTITIES[client]
            lenient = SumPolicy(0, 0, security_bits=-(10**9))
            party = object.__new__(SumClient)
            party._setup(identity, REGISTRY, lenient, MemoryKeeper())
            party._state = SumState(self.terms, client, MessageKind.ADVERTISE, bytes([client]) * 32)
            party._keeper.claim(party._state, 1)
            said = party.advertise()
            signed = open_client(self.terms, MessageKind.ADVERTISE, said)
            keys = Advertise.parse(Reader(signed.body))
            begun[client] = party._state, RosterEntry(client, keys, signed.signature)
        return begun

    def _again(self, state: SumState) -> SumClient:
        """The client in this state, with a memory of its own."""
        self.asked += 1
        keeper = MemoryKeeper()
        keeper.claim(state, 1)
        party = SumClient.resume(self.terms, IDENTITIES[state.client], REGISTRY, self.policy, keeper)
        if self.graph is not None:
            places = {client: place for place, client in enumerate(sorted(self.everybody))}
            holders = np.array(sorted(places[c] for c in self.drawn(state.client, self.everybody)))
            side_module.draw_holders = lambda *_: holders
        return party

    @cache  # noqa: B019
    def shares(self, client: int, roster: Some) -> tuple[SumState, Shares] | None:
        """What a client says when it is shown this roster."""
        state, _ = self._first[client]
        entries = [self._first[other][1] for other in sorted(roster)]
        party = self._again(state)
        try:
            said = party.share(from_server(self.terms, MessageKind.ROSTER, Roster.of(entries).pack()))
        except ProtocolError:
            return None
        finally:
            side_module.draw_holders = _REAL
        return party._state, Shares.parse(Reader(open_client(self.terms, MessageKind.SHARES, said).body))

    @cache  # noqa: B019
    def masked(self, client: int, roster: Some, sharers: Some) -> SumState | None:
        """The client's state after it has sent its vector, having been told who shared; None if it refuses."""
        if (before := self.shares(client, roster)) is None or not sharers <= roster:
            return None
        places, boxes = {other: place for place, other in enumerate(sorted(roster))}, {}
        for other in sharers - {client}:
            if client in self.drawn(other, roster):
                boxes[places[other]] = bytes(DIGEST + SEALED)  # whether it opens does not decide whether one goes on
        party = self._again(before[0])
        try:
            inbox = Inbox(_flags(roster, sharers), boxes).pack()
            party.mask(from_server(self.terms, MessageKind.INBOX, inbox), np.zeros(self.terms.width, np.uint8))
        except ProtocolError:
            return None
        finally:
            side_module.draw_holders = _REAL
        return party._state

    @cache  # noqa: B019
    def consented(self, client: int, roster: Some, sharers: Some, alive: Some) -> tuple[SumState, bytes] | None:
        """The client's state and signature after it was told who is alive; None if it refuses."""
        if (before := self.masked(client, roster, sharers)) is None or not alive <= roster:
            return None
        party = self._again(before)
        try:
            body = SurvivorList(_flags(roster, alive), {}).pack()
            said = party.consent(from_server(self.terms, MessageKind.SURVIVORS, body))
        except ProtocolError:
            return None
        finally:
            side_module.draw_holders = _REAL
        consent = Consent.parse(Reader(open_client(self.terms, MessageKind.CONSENT, said).body))
        return party._state, consent.names

    @cache  # noqa: B019
    def unmasked(self, client: int, roster: Some, sharers: Some, alive: Some, names: Some) -> int | None:
        """How many survivors a client thins by when it unmasks this story under these names; None if it refuses."""
        if (before := self.consented(client, roster, sharers, alive)) is None:
            return None
        state, signature = before
        consents, places = {}, {other: place for place, other in enumerate(sorted(roster))}
        story = party_story(state)
        for other in names & roster:
            signed = fingerprint(self.terms, MessageKind.CONSENT, other, story)
            if self.terms.tagged:
                consents[places[other]] = self._tag(other, client, roster, story)
            else:
                consents[places[other]] = signature if other == client else IDENTITIES[other].sign(signed)
        party, counted = self._again(state), []

        def reveal(survivors: int) -> np.ndarray:
            counted.append(survivors)
            return np.zeros(self.terms.width, np.int64)

        try:
            party.unmask(from_server(self.terms, MessageKind.REQUEST, UnmaskRequest(consents).pack()), reveal)
        except ProtocolError:
            return None
        finally:
            side_module.draw_holders = _REAL
        return counted[0]

    def _tag(self, sender: int, reader: int, roster: Some, story: bytes) -> bytes:
        """The tag that a client makes for another under a story."""
        view = RosterView(self.terms, Roster.of([self._first[other][1] for other in sorted(roster)]))
        only = _flags(roster, frozenset({reader}))
        pairs = Pairs.of(view, only, IDENTITIES[sender], REGISTRY)
        return make_tags(view, view.places[sender], story, only, pairs)


_REAL = side_module.draw_holders


def party_story(state: SumState) -> bytes:
    """The story that a client has consented to."""
    view = RosterView(state.terms, Roster(state.roster))
    return view.agreed(state.sharers, state.alive, REGISTRY)


def _flags(roster: Some, some: Some) -> np.ndarray:
    return np.array([client in some for client in sorted(roster)])


def complete(
    clients: int, corrupt: int = 0, strangers: int = 0, least: int | None = None, tagged: bool = False
) -> World:
    """The world of a complete graph with the weakest terms that its clients accept."""
    least = (clients + corrupt) // 2 + 1 if least is None else least
    terms = SumTerms(1, tuple(range(clients)), 1, 8, least, least, corrupt=corrupt, reveals=True, tagged=tagged)
    extra = frozenset(range(clients, clients + strangers))
    bad = frozenset(range(clients - corrupt, clients))
    return World(terms, SumPolicy(min(least, 2), min(least, 2)), bad, extra)


def sparse(graph: Mapping[int, set[int]], threshold: int, cohort: int, margin: int = 0) -> World:
    """The world of a sparse graph that was drawn like this. The bounds of `choose` do not hold at such sizes."""
    degree = len(graph[0])
    terms = SumTerms(1, tuple(sorted(graph)), 1, 8, threshold, cohort, degree, margin, 0, True)
    drawn = {client: frozenset(others) for client, others in graph.items()}
    return World(terms, SumPolicy(2, 2, security_bits=-(10**9)), graph=drawn)

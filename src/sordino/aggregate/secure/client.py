"""A client of one secure sum: bytes in, bytes out, one method a stage, each of which answers once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from sordino.aggregate.integers import UIntArray, reduce, word
from sordino.aggregate.secure.checks import (
    KeyRegistry,
    check_agreed,
    check_around,
    check_consents,
    check_enough,
    check_flags,
    check_invited,
    check_keys,
    check_signed,
)
from sordino.aggregate.secure.errors import KeySwapped, SplitView, WrongVector
from sordino.aggregate.secure.keeper import MemoryKeeper, SumKeeper
from sordino.aggregate.secure.keys import KEY, SIGNATURE, TAG, Identity
from sordino.aggregate.secure.masks import add_masks, pair_mask, self_mask
from sordino.aggregate.secure.messages import (
    SECRET,
    Consent,
    Inbox,
    Masked,
    Roster,
    Shares,
    SurvivorList,
    Unmask,
    UnmaskRequest,
)
from sordino.aggregate.secure.policy import SumPolicy, check_threshold
from sordino.aggregate.secure.roster_part import ClientKeys, RosterPart
from sordino.aggregate.secure.state import SumState, check_due, next_due
from sordino.aggregate.secure.tags import Pairs, check_tags, make_tags
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.view import RosterView, seed_commitment, share_digests
from sordino.aggregate.secure.wire import MessageKind, fingerprint, from_client, open_server
from sordino.types import BoolArray, IntArray

RemovablePart = Callable[[int], IntArray]
"""Given how many survivors are certain, returns the part of a client's vector that it reveals, to be subtracted."""


class SumClient:
    """One client's side of the protocol: `advertise` → `share` → `mask` → `consent` → `unmask`.

    Args:
        terms: what the server proposes for this round.
        client: this client's id.
        identity: its signing key.
        registry: public signing keys by id, from elsewhere than the server.
        policy: this client's own floors; terms below them are refused here.
        keeper: where it keeps its side between messages (by default, in memory).

    **Formal guarantees**: it answers once for each stage of each (federation, run, round, attempt), and what it answers
    is on the keeper's disk before it leaves. It reveals one of the two secrets of a peer, the one that the story
    (roster, sharers, survivors) calls for, and only when `consents` registered clients have put their names to that
    same story. All its keys and choices follow from one secret, the roster and the sharers: a client that is restored
    from a copy and shown something else uses other keys.
    **Edge cases**: a message that is refused, for whatever reason, changes nothing: the right one can still come.
    **Reference**: Bonawitz et al. (2017), Figure 4 (with the consistency check); Bell et al. (2020) for the graph.
    """

    def __init__(
        self,
        terms: SumTerms,
        client: int,
        identity: Identity,
        registry: KeyRegistry,
        policy: SumPolicy | None = None,
        keeper: SumKeeper | None = None,
    ) -> None:
        self._setup(identity, registry, policy, keeper)
        self._policy.check(terms, client)
        if registry.get(client) != identity.public:
            raise KeySwapped(f"client {client} is not registered with its own identity: register it first")
        self._state = SumState(terms, client, MessageKind.ADVERTISE, os.urandom(KEY))
        self._keeper.claim(self._state, self._policy.releases, self._policy.attempts)

    @classmethod
    def resume(
        cls, terms: SumTerms, identity: Identity, registry: KeyRegistry, policy: SumPolicy | None, keeper: SumKeeper
    ) -> SumClient:
        """Returns the client that a keeper has kept, to answer the next message."""
        client = cls.__new__(cls)
        client._setup(identity, registry, policy, keeper)
        client._state = keeper.load(terms)
        return client

    def _setup(
        self, identity: Identity, registry: KeyRegistry, policy: SumPolicy | None, keeper: SumKeeper | None
    ) -> None:
        self._identity, self._registry = identity, registry
        self._policy, self._keeper = policy or SumPolicy(), keeper or MemoryKeeper()
        self._known_pairs: tuple[bytes, Pairs] | None = None

    @property
    def terms(self) -> SumTerms:
        """What was agreed for this round."""
        return self._state.terms

    @property
    def client(self) -> int:
        """This client's id."""
        return self._state.client

    def advertise(self) -> bytes:
        """Returns this round's public keys, signed."""
        check_due(self._state, MessageKind.ADVERTISE)
        return self._answer(MessageKind.ADVERTISE, self._keys.entry(self._identity).keys.pack(), self._state)

    def share(self, roster: bytes) -> bytes:
        """Checks the key list, and returns shares of this client's two secrets, sealed for their holders."""
        check_due(self._state, MessageKind.SHARES)
        view = RosterView(self.terms, Roster.parse(open_server(self.terms, MessageKind.ROSTER, roster)))
        check_invited(view)
        check_enough(self.terms, view.size)
        check_threshold(self.terms, view.size, self._policy.security_bits)
        check_keys(view, self._keys.entry(self._identity))
        side = RosterPart(self._keys, view)
        check_signed(view, side.others, self._registry)
        secrets = side.secrets()
        names = {place: view.client(place) for place in secrets}
        digests = {place: share_digests(view, self.client, names[place], part) for place, part in secrets.items()}
        boxes = [side.sealed(place, secrets[place]) for place in side.others]
        body = Shares(seed_commitment(self.terms, self.client, self._keys.seed), digests, boxes).pack()
        after = replace(self._state, roster=view.roster.lines, held={side.place: secrets[side.place]})
        return self._answer(MessageKind.SHARES, body, after, _view=view)

    def mask(self, inbox: bytes, vector: UIntArray | Callable[[], UIntArray]) -> bytes:
        """Takes in the shares that it holds of others, and returns its vector (residues modulo 2^b) under its masks.

        A vector that is still to be made is made once nothing of what others sent can be refused any more.
        """
        check_due(self._state, MessageKind.MASKED)
        message, view = Inbox.parse(open_server(self.terms, MessageKind.INBOX, inbox)), self._view
        side, sharers = self._side, check_flags(view, message.sharers)
        senders = list(message.boxes)
        if not sharers[side.place] or any(s >= view.size or s == side.place or not sharers[s] for s in senders):
            raise SplitView(f"the server's list of who shared secrets does not fit what client {self.client} got")
        if side.complete and len(senders) + 1 != int(sharers.sum()):
            raise SplitView(f"client {self.client} did not get a box from everybody who shared secrets: do not go on")
        check_enough(self.terms, int(sharers.sum()))
        check_around(self.terms, side.holders, sharers, "shared secrets")
        check_signed(view, set(senders).difference(side.others), self._registry)
        held, complaints = side.opened(message.boxes, self._identity)
        partners = tuple(sorted({*senders, *(p for p in side.others if sharers[p])}))
        made = vector() if callable(vector) else vector
        self._check_vector(made)
        masked = self._masked(made, view.shared(sharers), partners)
        after = replace(self._state, sent=True, sharers=sharers, held={**self._state.held, **held}, partners=partners)
        return self._answer(MessageKind.MASKED, Masked(masked, complaints).pack(self.terms), after)

    def consent(self, survivors: bytes) -> bytes:
        """Puts this client's name to the server's story of who is alive."""
        check_due(self._state, MessageKind.CONSENT)
        message, view = SurvivorList.parse(open_server(self.terms, MessageKind.SURVIVORS, survivors)), self._view
        side, alive = self._side, check_flags(view, message.alive)
        if not alive[side.place] or (alive & ~self._state.sharers).any():
            raise SplitView("the server counts survivors who never shared secrets, or does not count this client")
        check_enough(self.terms, int(alive.sum()))
        check_around(self.terms, side.holders, alive, "are alive")
        openings = side.openings(message.accusers, self._registry)
        story = view.agreed(self._state.sharers, alive, self._registry)
        body = Consent(story, self._names(side, story, alive), openings).pack()
        return self._answer(MessageKind.CONSENT, body, replace(self._state, alive=alive))

    def unmask(self, request: bytes, reveal: RemovablePart | None = None) -> bytes:
        """Returns shares of the survivors' seeds and the vanished clients' keys, and what is removable."""
        check_due(self._state, MessageKind.UNMASK)
        if self.terms.reveals != (reveal is not None):
            raise WrongVector("the terms say whether clients reveal a removable part, and this client does otherwise")
        reader, state = open_server(self.terms, MessageKind.REQUEST, request), self._state
        asked = UnmaskRequest.parse(reader, TAG if self.terms.tagged else SIGNATURE)
        side, story = self._side, self._view.agreed(state.sharers, state.alive, self._registry)
        if self.terms.tagged:
            verified = check_tags(side.view, story, state.alive, asked.consents, self._pairs(state.alive), side.place)
        else:
            verified = check_consents(side.view, story, state.alive, asked.consents, self._registry, side.place)
        certain = check_agreed(self.terms, len(verified))
        around = [place in verified for place in range(self._view.size)]
        check_around(self.terms, side.holders, np.array(around), "consent")
        seeds = {place: held[:SECRET] for place, held in state.held.items() if state.alive[place]}
        keys = {place: held[SECRET:] for place, held in state.held.items() if not state.alive[place]}
        removable = reveal(certain) if reveal else None
        return self._answer(MessageKind.UNMASK, Unmask(seeds, keys, removable).pack(), state)

    def abandon(self) -> None:
        """Erases its secrets, when a round was given up: it says nothing more in this attempt."""
        self._keep(self._state.erased())

    def _answer(self, kind: MessageKind, body: bytes, after: SumState, _view: RosterView | None = None) -> bytes:
        """Writes down that this was said, and only then says it."""
        message = from_client(self.terms, kind, self.client, body, self._identity)
        due = next_due(kind)
        self._keep(replace(after, due=due) if due else after.erased())
        if _view is not None:
            self.__dict__["_view"] = _view
        return message

    def _keep(self, after: SumState) -> None:
        self._keeper.save(self._state, after)
        self._state = after
        if not after.due:
            self._known_pairs = None

    @cached_property
    def _view(self) -> RosterView:
        return RosterView(self.terms, Roster(self._state.roster))

    @property
    def _keys(self) -> ClientKeys:
        return ClientKeys(self.terms, self.client, self._state.root)

    @property
    def _side(self) -> RosterPart:
        return RosterPart(self._keys, self._view)

    def _names(self, side: RosterPart, story: bytes, alive: BoolArray) -> bytes:
        """Returns its name under a story: a signature, or a tag for every survivor."""
        if self.terms.tagged:
            return make_tags(side.view, side.place, story, alive, self._pairs(alive))
        return self._identity.sign(fingerprint(self.terms, MessageKind.CONSENT, self.client, story))

    def _pairs(self, alive: BoolArray) -> Pairs:
        """Returns what it shares with the survivors; the process that consents still knows when it unmasks."""
        if self._known_pairs is None or self._known_pairs[0] != alive.tobytes():
            self._known_pairs = alive.tobytes(), Pairs.of(self._view, alive, self._identity, self._registry)
        return self._known_pairs[1]

    def _check_vector(self, vector: UIntArray) -> None:
        bits = self.terms.modulus_bits
        if (
            vector.shape != (self.terms.width,)
            or vector.dtype != word(bits)
            or reduce(vector.max(), bits) != vector.max()
        ):
            raise WrongVector(
                f"a vector must have {self.terms.width} residues modulo 2^{bits}, as {word(bits).__name__}"
            )

    def _masked(self, vector: UIntArray, story: bytes, partners: tuple[int, ...]) -> UIntArray:
        keys = self._keys.mask_keys
        masks = [(self_mask(self._keys.seed, story, self.client), 1)]
        for place in partners:
            entry = self._view.roster.entry(place)
            masks.append(pair_mask(keys.with_(entry.keys.mask_key), story, self.client, entry.client))
        masked = vector.copy()
        add_masks(masked, masks)
        return reduce(masked, self.terms.modulus_bits)

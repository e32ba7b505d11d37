"""Which members of a federation are there: nodes are greeted, and sign in with the registry's keys."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Message

from sordino.aggregate.secure.keys import Identity
from sordino.errors import FederationError, ProtocolError
from sordino.federation.deadlines import LATEST, SOONEST, Deadlines
from sordino.federation.flower_wire import UNREADABLE, FlowerWire
from sordino.federation.journal import Journal, Progress
from sordino.federation.messages import Parcel
from sordino.federation.reading import AnswerReader, answer_of
from sordino.federation.receipts import parse, proven
from sordino.federation.telling import Telling
from sordino.types import BoolArray

_RETRY = 5.0
"""Seconds after which a node is greeted again whose app failed."""


@dataclass(frozen=True)
class Greeting:
    """A question to a Flower node: which member are you, and would you take part?"""

    node: int
    since: float
    request: str
    """The digest of the request."""


@dataclass(eq=False)
class Presence:
    """The members that are there, each at its Flower node.

    **Formal guarantees**: a member counts as present when a node has signed, with the key that the registry lists, that
    it is that member *at this Flower node*.
    **Edge cases**: of two nodes with one key the first counts and the other is refused. A member that was silent is
    asked again whether it is there, and nobody waits for that.
    """

    wire: FlowerWire
    reader: AnswerReader
    operator: Identity
    deadlines: Deadlines
    telling: Telling
    journal: Journal
    at: dict[int, int] = field(default_factory=dict)
    """Member → Flower node, of those who are present."""
    _greeted: dict[str, Greeting] = field(default_factory=dict)
    """Greetings that are not answered yet, by message."""
    _later: dict[int, float] = field(default_factory=dict)
    """Flower nodes that refused, failed or are strangers: when they are greeted again."""
    _silent: set[int] = field(default_factory=set)
    """Flower nodes that let a deadline pass: they are greeted, and nobody waits for that."""

    def gathered(self, least: int) -> BoolArray:
        """Waits until so many members are there, and for those that are just being greeted; returns who is there.

        Raises:
            FederationError: too few came in time, or so many members do not exist, for whom nobody waits.
        """
        members = {member.number: member.name for member in self.reader.registry.active}
        if least > len(members):
            raise FederationError(
                f"{least} nodes are needed (`--least`, or budget.minimum_clients) and the registry has {len(members)} "
                "members: enrol more, or ask for fewer"
            )
        end, pause = time.monotonic() + self.deadlines.gather, SOONEST
        while True:
            mask, now = self._present(), time.monotonic()
            if mask.sum() >= least and not any(self._awaited(one, now) for one in self._greeted.values()):
                return mask
            if now > end:
                missing = ", ".join(name for number, name in members.items() if number not in self.at)
                raise FederationError(
                    f"{int(mask.sum())} nodes are there and {least} are needed, {self.deadlines.gather:g} s after the "
                    f"first call: start {missing} (`sordino node start`; whoever refused said why above), then resume "
                    "the run; `--gather-seconds` waits longer"
                )
            self.telling.waiting(int(mask.sum()), least)
            time.sleep(pause)
            pause = min(LATEST, pause * 1.5)

    def missed(self, member: int) -> None:
        """Notes that a member let a deadline pass: it is greeted again, and counts when it answers that."""
        if member in self.at:
            self._silent.add(self.at.pop(member))

    def _present(self) -> BoolArray:
        """Returns who is there now, by number; greets nodes that are new or were silent."""
        there, now = self.wire.nodes(), time.monotonic()
        self.at = {member: node for member, node in self.at.items() if node in there}
        # a greeting that got lost is repeated; an answer that is late still counts
        fresh = [one.node for one in self._greeted.values() if now < one.since + self.deadlines.stage]
        known = {*self.at.values(), *fresh}
        self._greet([node for node in sorted(there - known) if now >= self._later.get(node, 0.0)])
        for reply in self.wire.pull(list(self._greeted)):
            self._welcome(reply)
        for one in self.wire.unreadable & self._greeted.keys():
            greeting = self._greeted.pop(one)
            self._later[greeting.node] = now + self.deadlines.stage
            self.telling.member("refused", -1, f"Flower node {greeting.node}: {UNREADABLE}")
        mask = np.zeros(self.reader.plan.population, bool)
        mask[list(self.at)] = True
        return mask

    def _awaited(self, greeting: Greeting, now: float) -> bool:
        return greeting.node not in self._silent and now < greeting.since + self.deadlines.stage

    def _greet(self, nodes: Iterable[int]) -> None:
        greetings, plan = {}, self.reader.plan
        for node in nodes:
            parcel = Parcel("hello", plan.run, 0, secrets.randbits(31), 0, {"plan": plan.pack()}).sealed(self.operator)
            greetings[Greeting(node, time.monotonic(), parcel.digest)] = (node, parcel)
        self._greeted |= self.wire.push(greetings, "hello")

    def _welcome(self, reply: Message) -> None:
        """Takes in the answer to a greeting: a member that is there, or a refusal that the operator should read."""
        greeting = self._greeted.pop(reply.metadata.reply_to_message_id, None)
        if greeting is None:
            return
        node, wait, paid = greeting.node, self.deadlines.stage, Progress()
        if reply.has_error():
            member, why, wait = -1, str(reply.error.reason or reply.error.code), _RETRY
        else:
            member, why, paid = self._answered(reply, greeting)
        if why:
            self._later[node] = time.monotonic() + wait
            self.telling.member("refused", member, why if member >= 0 else f"Flower node {node}: {why}")
        else:
            self._require_known(member, paid)
            self.at[member] = node
            self._silent.discard(node)
            self.telling.member("present", member, "")

    def _answered(self, reply: Message, greeting: Greeting) -> tuple[int, str, Progress]:
        """Returns who answers a greeting, why it is not let in (nothing if it is), and what it has paid for."""
        member = -1
        try:
            with answer_of(-1):
                answer = Parcel.parse(reply.content, request=False)
                self.reader.signed(answer, greeting.request, answer.node)
                if answer.refused:
                    who = answer.node if self.reader.vouched(answer, answer.node) else -1
                    return who, answer.refused, Progress()
            member = answer.node
            with answer_of(member):
                at, run = answer.part("flower"), self.reader.plan.run
                paid = proven(parse(answer.part("paid")), run, member, self.operator.public)
        except ProtocolError as error:
            return member, str(error), Progress()
        if at != str(greeting.node).encode():
            return -1, "it passed on the greeting of another node, and is ignored", paid
        if self.at.get(member, greeting.node) != greeting.node:
            return -1, f"it uses the key of member {member}, which is in use already, and is ignored", paid
        return member, "", paid

    def _require_known(self, member: int, paid: Progress) -> None:
        """Refuses to go on if a member has paid for more of this run than was announced from here.

        **Formal guarantees**: what left a member that answered a greeting is in this ledger, or its reservation is. A
        server that is set back to an older copy of its folder, ledger and heads included, would else certify less than
        was spent: nothing on its own machine could tell. No member can say so of itself: it shows what this operator
        signed (`receipts.proven`).

        Raises:
            FederationError: this folder is an older copy.
        """
        if not paid.within(known := self.journal.progress):
            name = self.reader.registry.names[member]
            raise FederationError(
                f"{name} has paid for round {paid.round_} and {paid.openings} openings of this run, as requests show "
                f"that your key signed, and this folder has announced {known.round_} and {known.openings}: it is an "
                "older copy, and its certificate would say less than was spent; restore the newest copy, or move run/ "
                "away to begin a new run"
            )

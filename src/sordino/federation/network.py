"""The server's end of the wire: who is there, and one stage of a round at a time, each with a deadline of its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from sordino.aggregate.secure.keys import Identity
from sordino.errors import FederationError, ProtocolError
from sordino.federation.messages import Parcel, Stage
from sordino.federation.plan import RunPlan
from sordino.federation.registry import MemberRegistry
from sordino.federation.telling import Telling
from sordino.types import BoolArray

K = TypeVar("K")

_SOONEST, _LATEST = 0.02, 0.5
"""Seconds between two looks for answers: few at first, more when nobody is in a hurry."""


@dataclass(frozen=True)
class Deadlines:
    """How long the server waits, in seconds."""

    stage: float = 60.0
    """For an answer that takes no training."""
    train: float = 600.0
    """For an answer that takes training."""
    gather: float = 300.0
    """For enough nodes to be there before a round."""
    lifetime: float = 3600.0
    """How long a SuperLink keeps an unanswered request."""

    def of(self, stage: Stage) -> float:
        """Returns the deadline of a stage."""
        return self.train if stage in ("contribute", "mask", "tell") else self.stage


@dataclass(frozen=True)
class Answers:
    """What became of one stage's requests, by member."""

    replies: Mapping[int, Parcel]
    refused: Mapping[int, str]
    """Who takes no part, and why: its message did not leave it."""
    lost: frozenset[int]
    """Who said nothing in time: its message may have left it."""


@dataclass(eq=False)
class NodeNetwork:
    """The members of a federation, as far as they can be reached over a Flower grid.

    **Formal guarantees**: a member counts as present when a node has signed, with the key that the registry lists, that
    it is that member *at this Flower node*. An answer counts when the member that was asked has signed it for this
    stage, round and attempt. Answers that come after the deadline are not looked at.
    **Edge cases**: an error of Flower's own (a node that is gone) comes from the SuperLink and is told apart by the
    request that it answers. Of two nodes with one key the first counts and the other is refused. A member that was
    silent is asked again whether it is there, and nobody waits for that.
    """

    grid: Grid
    registry: MemberRegistry
    operator: Identity
    plan: RunPlan
    deadlines: Deadlines
    telling: Telling
    _at: dict[int, int] = field(default_factory=dict)
    """Member → Flower node, of those who are present."""
    _greeted: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Greetings that are not answered yet: message → Flower node, nonce."""
    _unwelcome: set[int] = field(default_factory=set)
    """Flower nodes that refused, or are not members: not greeted again."""
    _silent: set[int] = field(default_factory=set)
    """Flower nodes whose greeting was waited for once, in vain: nobody waits for it again."""

    def present(self) -> BoolArray:
        """Returns who is there now, by number; greets nodes that are new or were silent."""
        there = {int(node) for node in self.grid.get_node_ids()}
        self._at = {member: node for member, node in self._at.items() if node in there}
        waiting = {node for node, _ in self._greeted.values()}
        self._greet(sorted(there - set(self._at.values()) - waiting - self._unwelcome))
        for reply in self._pull(list(self._greeted)):
            self._welcome(reply)
        mask = np.zeros(self.plan.population, bool)
        mask[list(self._at)] = True
        return mask

    def gathered(self, least: int) -> BoolArray:
        """Waits until so many members are there, and gives the others a moment; returns who is.

        Raises:
            FederationError: too few came in time.
        """
        end, pause = time.monotonic() + self.deadlines.gather, _SOONEST
        enough: float | None = None
        while True:
            mask = self.present()
            now = time.monotonic()
            if mask.sum() >= least:
                enough = enough or now + min(self.deadlines.stage, self.deadlines.gather)
            awaited = {node for node, _ in self._greeted.values()}
            everybody = mask.sum() >= len(self.registry.active) or awaited <= self._silent
            if enough is not None and (everybody or now > enough):
                self._silent |= awaited
                return mask
            if now > end:
                raise FederationError(
                    f"{int(mask.sum())} nodes are there and {least} are needed: start the others, then resume the run"
                )
            self.telling.waiting(int(mask.sum()), least)
            time.sleep(pause)
            pause = min(_LATEST, pause * 1.5)

    def ask(self, stage: Stage, round_: int, attempt: int, parts: Mapping[int, Mapping[str, bytes]]) -> Answers:
        """Sends a request to each of these members, and collects answers until all are there or time is up."""
        plan = {"plan": self.plan.pack()}
        requests = {
            member: Parcel(stage, self.plan.run, round_, attempt, member, {**plan, **own}).sealed(self.operator)
            for member, own in parts.items()
            if member in self._at
        }
        self.telling.stage(stage, round_, parts, self.deadlines.of(stage))
        sent = self._push({member: (self._at[member], request) for member, request in requests.items()}, stage)
        replies, refused, waiting = dict[int, Parcel](), dict[int, str](), dict(sent)
        end, pause = time.monotonic() + self.deadlines.of(stage), _SOONEST
        while waiting:
            came = self._pull(list(waiting))
            for reply in came:
                member = waiting.pop(reply.metadata.reply_to_message_id, None)
                if member is not None:
                    self._take(requests[member], reply, replies, refused)
            if time.monotonic() > end or not waiting:
                break
            pause = _SOONEST if came else min(_LATEST, pause * 1.5)
            time.sleep(pause)
        lost = frozenset(parts) - replies.keys() - refused.keys()
        for member in lost:
            if member in self._at:  # it is greeted again, and counts when it answers that; nobody waits
                self._silent.add(self._at.pop(member))
            self.telling.member("lost", member, f"no answer to {stage} in time")
        for member, sentence in refused.items():
            self.telling.member("refused", member, sentence)
        for member in replies:
            self.telling.member("answered", member, "")
        return Answers(replies, refused, lost)

    def _take(self, request: Parcel, reply: Message, replies: dict[int, Parcel], refused: dict[int, str]) -> None:
        member = request.node
        if reply.has_error():  # Flower's own: the node is gone, or its app failed
            self.telling.member("error", member, reply.error.reason or f"Flower error {reply.error.code}")
            return
        try:
            answer = self._signed(Parcel.parse(reply.content, request=False), request, member)
        except ProtocolError as error:
            self.telling.member("error", member, str(error))
            return
        if answer.refused:
            refused[member] = answer.refused
        else:
            replies[member] = answer

    def _signed(self, answer: Parcel, request: Parcel, member: int) -> Parcel:
        """Returns an answer that the member signed for this very request; a refusal needs no signature."""
        told = (answer.stage, answer.run, answer.round_, answer.attempt)
        if told != (request.stage, request.run, request.round_, request.attempt):
            raise ProtocolError("an answer belongs to another stage, round or attempt: it is ignored")
        if not answer.refused:
            key = self.registry.public_keys.get(member)
            if answer.node != member or key is None:
                raise ProtocolError(f"an answer names member {answer.node}, who was not asked: it is ignored")
            answer.check(key, f"member {member}")
        return answer

    def _greet(self, nodes: Iterable[int]) -> None:
        greetings = {}
        for node in nodes:
            nonce = secrets.randbits(31)
            parcel = Parcel("hello", self.plan.run, 0, nonce, 0, {"plan": self.plan.pack()}).sealed(self.operator)
            greetings[node, nonce] = (node, parcel)
        for message, greeted in self._push(greetings, "hello").items():
            self._greeted[message] = greeted

    def _welcome(self, reply: Message) -> None:
        """Takes in the answer to a greeting: a member that is there, or a refusal that the operator should read."""
        node, nonce = self._greeted.pop(reply.metadata.reply_to_message_id, (0, 0))
        self._silent.discard(node)
        if reply.has_error():
            self.telling.member("error", -1, f"Flower node {node}: {reply.error.reason or reply.error.code}")
            return
        try:
            answer = Parcel.parse(reply.content, request=False)
            greeting = Parcel("hello", self.plan.run, 0, nonce, 0)
            member = self._signed(answer, greeting, answer.node).node
        except ProtocolError as error:
            self._unwelcome.add(node)
            self.telling.member("error", -1, f"Flower node {node}: {error}")
            return
        if answer.refused:
            self._unwelcome.add(node)
            self.telling.member("refused", -1, f"Flower node {node}: {answer.refused}")
        elif answer.part("flower") != str(node).encode():
            self._unwelcome.add(node)
            self.telling.member(
                "error", member, f"Flower node {node} passed on the greeting of another node: it is ignored"
            )
        elif self._at.get(member, node) != node:
            self._unwelcome.add(node)
            self.telling.member("error", member, f"Flower node {node} uses a key that is in use already: it is ignored")
        else:
            self._at[member] = node
            self.telling.member("present", member, "")

    def _push(self, parcels: Mapping[K, tuple[int, Parcel]], stage: Stage) -> dict[str, K]:
        """Sends parcels to Flower nodes; returns the key of each by the id of its message."""
        messages = [
            Message(parcel.pack(), node, f"query.{stage}", ttl=self.deadlines.lifetime)
            for node, parcel in parcels.values()
        ]
        ids = list(self.grid.push_messages(messages)) if messages else []
        return {told: key for told, key in zip(ids, parcels, strict=False) if told}

    def _pull(self, ids: list[str]) -> list[Message]:
        return list(self.grid.pull_messages(ids)) if ids else []

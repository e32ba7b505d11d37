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
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from httpx import HTTPError

from sordino.aggregate.secure.keys import Identity
from sordino.errors import FederationError, ProtocolError
from sordino.federation.journal import Journal, Progress
from sordino.federation.messages import SENDING, Parcel, Stage
from sordino.federation.plan import RunPlan
from sordino.federation.reading import answer_of
from sordino.federation.registry import MemberRegistry
from sordino.federation.sizes import check_answer
from sordino.federation.telling import Telling
from sordino.types import BoolArray

K = TypeVar("K")

_SOONEST, _LATEST = 0.02, 0.5
"""Seconds between two looks for answers: few at first, more when nobody is in a hurry."""


_UNREADABLE = "it sent what Flower cannot read: it is left out"
_RETRY = 5.0
"""Seconds after which a node is greeted again whose app failed."""


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
class Greeting:
    """A question to a Flower node: which member are you, and would you take part?"""

    node: int
    nonce: int
    since: float
    request: str
    """The digest of the request."""


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
    it is that member *at this Flower node*. An answer counts when the member that was asked has signed it for this very
    request: its stage, run, round, attempt, plan and terms. Answers that come after the deadline are not looked at.
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
    journal: Journal
    _at: dict[int, int] = field(default_factory=dict)
    """Member → Flower node, of those who are present."""
    _greeted: dict[str, Greeting] = field(default_factory=dict)
    """Greetings that are not answered yet, by message."""
    _later: dict[int, float] = field(default_factory=dict)
    """Flower nodes that refused, failed or are strangers: when they are greeted again."""
    _silent: set[int] = field(default_factory=set)
    """Flower nodes that let a deadline pass: they are greeted, and nobody waits for that."""
    _unreadable: set[str] = field(default_factory=set)
    """Messages whose answer Flower itself could not read."""

    def present(self) -> BoolArray:
        """Returns who is there now, by number; greets nodes that are new or were silent."""
        there, now = {int(node) for node in self.grid.get_node_ids()}, time.monotonic()
        self._at = {member: node for member, node in self._at.items() if node in there}
        # a greeting that got lost is repeated; an answer that is late still counts
        fresh = [one.node for one in self._greeted.values() if now < one.since + self.deadlines.stage]
        known = {*self._at.values(), *fresh}
        self._greet([node for node in sorted(there - known) if now >= self._later.get(node, 0.0)])
        for reply in self._pull(list(self._greeted)):
            self._welcome(reply)
        for one in self._unreadable & self._greeted.keys():
            greeting = self._greeted.pop(one)
            self._later[greeting.node] = now + self.deadlines.stage
            self.telling.member("refused", -1, f"Flower node {greeting.node}: {_UNREADABLE}")
        mask = np.zeros(self.plan.population, bool)
        mask[list(self._at)] = True
        return mask

    def gathered(self, least: int) -> BoolArray:
        """Waits until so many members are there, and for those that are just being greeted; returns who is there.

        Raises:
            FederationError: too few came in time, or so many members do not exist, for whom nobody waits.
        """
        members = {member.number: member.name for member in self.registry.active}
        if least > len(members):
            raise FederationError(
                f"{least} nodes are needed (`--least`, or budget.minimum_clients) and the registry has {len(members)} "
                "members: enrol more, or ask for fewer"
            )
        end, pause = time.monotonic() + self.deadlines.gather, _SOONEST
        while True:
            mask, now = self.present(), time.monotonic()
            if mask.sum() >= least and not any(self._awaited(one, now) for one in self._greeted.values()):
                return mask
            if now > end:
                missing = ", ".join(name for number, name in members.items() if number not in self._at)
                raise FederationError(
                    f"{int(mask.sum())} nodes are there and {least} are needed, {self.deadlines.gather:g} s after the "
                    f"first call: start {missing} (`sordino node start`; whoever refused said why above), then resume "
                    "the run; `--gather-seconds` waits longer"
                )
            self.telling.waiting(int(mask.sum()), least)
            time.sleep(pause)
            pause = min(_LATEST, pause * 1.5)

    def _awaited(self, greeting: Greeting, now: float) -> bool:
        return greeting.node not in self._silent and now < greeting.since + self.deadlines.stage

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
        replies, refused, failed, waiting = dict[int, Parcel](), dict[int, str](), dict[int, str](), dict(sent)
        end, pause = time.monotonic() + self.deadlines.of(stage), _SOONEST
        while waiting:
            came = self._pull(list(waiting))
            for reply in came:
                member = waiting.pop(reply.metadata.reply_to_message_id, None)
                if member is not None:
                    self._take(requests[member], reply, replies, refused, failed)
            failed |= {waiting.pop(one): _UNREADABLE for one in self._unreadable & waiting.keys()}
            if time.monotonic() > end or not waiting:
                break
            pause = _SOONEST if came else min(_LATEST, pause * 1.5)
            time.sleep(pause)
        lost = frozenset(parts) - replies.keys() - refused.keys()
        for member in lost:
            if member in self._at:  # it is greeted again, and counts when it answers that; nobody waits
                self._silent.add(self._at.pop(member))
            state, why = ("error", failed[member]) if member in failed else ("lost", f"no answer to {stage} in time")
            self.telling.member(state, member, why)
        for member, sentence in refused.items():
            self.telling.member("refused", member, sentence)
        for member in replies:
            self.telling.member("answered", member, "")
        return Answers(replies, refused, lost)

    def _take(
        self,
        request: Parcel,
        reply: Message,
        replies: dict[int, Parcel],
        refused: dict[int, str],
        failed: dict[int, str],
    ) -> None:
        member = request.node
        if reply.has_error():  # Flower's own: the node is gone, or its app failed
            failed[member] = reply.error.reason or f"Flower error {reply.error.code}"
            return
        try:
            with answer_of(member):
                answer = self._signed(Parcel.parse(reply.content, request=False), request.digest, member)
        except ProtocolError as error:
            failed[member] = str(error)
            return
        if not answer.refused:
            replies[member] = answer
        elif request.stage in SENDING and not self._vouched(answer, member):
            failed[member] = answer.refused  # its message may have left it: anybody could have said this
        else:
            refused[member] = answer.refused

    def _vouched(self, answer: Parcel, member: int) -> bool:
        """Returns whether a member signed its own refusal."""
        key = self.registry.public_keys.get(member)
        if key is None or answer.node != member:
            return False
        try:
            answer.check(key, f"member {member}")
        except ProtocolError:
            return False
        return True

    def _signed(self, answer: Parcel, request: str, member: int) -> Parcel:
        """Returns an answer that the member signed for this very request; for refusals see `_vouched`."""
        check_answer(self.plan, answer.parts)
        if answer.answers != request:
            raise ProtocolError("an answer belongs to another request, stage, round or attempt: it is ignored")
        if not answer.refused:
            key = self.registry.public_keys.get(member)
            if answer.node != member or key is None:
                raise ProtocolError(f"an answer names member {answer.node}, who was not asked: it is ignored")
            answer.check(key, f"member {member}")
        return answer

    def _greet(self, nodes: Iterable[int]) -> None:
        greetings = {}
        for node in nodes:
            nonce, plan = secrets.randbits(31), {"plan": self.plan.pack()}
            parcel = Parcel("hello", self.plan.run, 0, nonce, 0, plan).sealed(self.operator)
            greetings[Greeting(node, nonce, time.monotonic(), parcel.digest)] = (node, parcel)
        self._greeted |= self._push(greetings, "hello")

    def _welcome(self, reply: Message) -> None:
        """Takes in the answer to a greeting: a member that is there, or a refusal that the operator should read."""
        greeting = self._greeted.pop(reply.metadata.reply_to_message_id, None)
        if greeting is None:
            return
        node, wait, paid = greeting.node, self.deadlines.stage, Progress()
        if reply.has_error():
            member, why, wait = -1, str(reply.error.reason or reply.error.code), _RETRY
        else:
            member, why, paid = self._greeting_of(reply, greeting)
        if why:
            self._later[node] = time.monotonic() + wait
            self.telling.member("refused", member, why if member >= 0 else f"Flower node {node}: {why}")
        else:
            self._require_known(member, paid)
            self._at[member] = node
            self._silent.discard(node)
            self.telling.member("present", member, "")

    def _require_known(self, member: int, paid: Progress) -> None:
        """Refuses to go on if a member has paid for more of this run than was announced from here.

        **Formal guarantees**: what left a member that answered a greeting is in this ledger, or its reservation is. A
        server that is set back to an older copy of its folder, ledger and heads included, would else certify less than
        was spent: nothing on its own machine could tell.

        Raises:
            FederationError: this folder is an older copy (or the member lies; only the operator can tell).
        """
        if not paid.within(known := self.journal.progress):
            name = self.registry.names[member]
            raise FederationError(
                f"{name} has paid for round {paid.round_} and {paid.openings} openings of this run, and this folder "
                f"has announced {known.round_} and {known.openings}: it is an older copy, and its certificate would "
                "say less than was spent; restore the newest copy, or move run/ away to begin a new run; if "
                f"{name} is wrong, let it leave (`sordino federation dismiss`)"
            )

    def _greeting_of(self, reply: Message, greeting: Greeting) -> tuple[int, str, Progress]:
        """Returns who answers a greeting, why it is not let in (nothing if it is), and what it has paid for."""
        try:
            with answer_of(-1):
                answer = Parcel.parse(reply.content, request=False)
                member = self._signed(answer, greeting.request, answer.node).node
                if answer.refused:
                    who = answer.node if self._vouched(answer, answer.node) else -1
                    return who, answer.refused, Progress()
                at, paid = answer.part("flower"), Progress.parse(answer.part("paid"))
        except ProtocolError as error:
            return -1, str(error), Progress()
        if at != str(greeting.node).encode():
            return -1, "it passed on the greeting of another node, and is ignored", paid
        if self._at.get(member, greeting.node) != greeting.node:
            return -1, f"it uses the key of member {member}, which is in use already, and is ignored", paid
        return member, "", paid

    def _push(self, parcels: Mapping[K, tuple[int, Parcel]], stage: Stage) -> dict[str, K]:
        """Sends parcels to Flower nodes; returns the key of each by the id of its message."""
        messages = [
            Message(parcel.pack(), node, f"query.{stage}", ttl=self.deadlines.lifetime)
            for node, parcel in parcels.values()
        ]
        try:
            ids = list(self.grid.push_messages(messages)) if messages else []
        except ObjectPushError:  # Flower's own, on a machine that is too busy; some of the messages may be on their way
            raise ProtocolError("the SuperLink lost a message on its way in: the round is given up") from None
        return {told: key for told, key in zip(ids, parcels, strict=False) if told}

    def _pull(self, ids: list[str]) -> list[Message]:
        """Returns the answers that came.

        Flower reads many answers at once and stumbles over one of them for all; those that it had confirmed by then
        are gone. So it is given one at a time from the first such answer on, and whoever sends another harms nobody.
        """
        if not self._unreadable:
            try:
                return list(self.grid.pull_messages(ids)) if ids else []
            except (OSError, HTTPError):
                raise  # the SuperLink is gone
            except Exception:
                self._unreadable.add("")
        came, failures = list[Message](), list[Exception]()
        for one in ids:
            try:
                came += self.grid.pull_messages([one])
            except (OSError, HTTPError):
                raise
            except Exception as error:
                failures.append(error)
                self._unreadable.add(one)
        if len(failures) == len(ids) > 1:
            raise failures[0]  # no member can do that
        return came

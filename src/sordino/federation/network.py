"""The server's end of the wire: one stage of a round at a time, asked of members that are there, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import Message
from flwr.serverapp import Grid

from sordino.aggregate.secure.keys import Identity
from sordino.errors import ProtocolError
from sordino.federation.deadlines import LATEST, SOONEST, Deadlines
from sordino.federation.flower_wire import UNREADABLE, FlowerWire
from sordino.federation.journal import Journal
from sordino.federation.messages import SENDING, Parcel, Stage
from sordino.federation.plan import RunPlan
from sordino.federation.presence import Presence
from sordino.federation.reading import AnswerReader, answer_of
from sordino.federation.registry import MemberRegistry
from sordino.federation.telling import Telling


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

    **Formal guarantees**: who is there is `presence`'s to say, what counts as an answer `reading.AnswerReader`'s.
    Answers that come after the deadline are not looked at.
    **Edge cases**: an error of Flower's own (a node that is gone) comes from the SuperLink and is told apart by the
    request that it answers.
    """

    grid: Grid
    registry: MemberRegistry
    operator: Identity
    plan: RunPlan
    deadlines: Deadlines
    telling: Telling
    journal: Journal
    presence: Presence = field(init=False)
    _wire: FlowerWire = field(init=False)
    _reader: AnswerReader = field(init=False)

    def __post_init__(self) -> None:
        self._wire = FlowerWire(self.grid, self.deadlines.lifetime)
        self._reader = AnswerReader(self.plan, self.registry)
        self.presence = Presence(self._wire, self._reader, self.operator, self.deadlines, self.telling, self.journal)

    def ask(self, stage: Stage, round_: int, attempt: int, parts: Mapping[int, Mapping[str, bytes]]) -> Answers:
        """Sends a request to each of these members, and collects answers until all are there or time is up."""
        plan, at = {"plan": self.plan.pack()}, self.presence.at
        requests = {
            member: Parcel(stage, self.plan.run, round_, attempt, member, {**plan, **own}).sealed(self.operator)
            for member, own in parts.items()
            if member in at
        }
        self.telling.stage(stage, round_, parts, self.deadlines.of(stage))
        sent = self._wire.push({member: (at[member], request) for member, request in requests.items()}, stage)
        replies, refused, failed, waiting = dict[int, Parcel](), dict[int, str](), dict[int, str](), dict(sent)
        end, pause = time.monotonic() + self.deadlines.of(stage), SOONEST
        while waiting:
            came = self._wire.pull(list(waiting))
            for reply in came:
                member = waiting.pop(reply.metadata.reply_to_message_id, None)
                if member is not None:
                    self._take(requests[member], reply, replies, refused, failed)
            failed |= {waiting.pop(one): UNREADABLE for one in self._wire.unreadable & waiting.keys()}
            if time.monotonic() > end or not waiting:
                break
            pause = SOONEST if came else min(LATEST, pause * 1.5)
            time.sleep(pause)
        lost = frozenset(parts) - replies.keys() - refused.keys()
        for member in lost:
            self.presence.missed(member)
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
                answer = self._reader.signed(Parcel.parse(reply.content, request=False), request.digest, member)
        except ProtocolError as error:
            failed[member] = str(error)
            return
        if not answer.refused:
            replies[member] = answer
        elif request.stage in SENDING and not self._reader.vouched(answer, member):
            failed[member] = answer.refused  # its message may have left it: anybody could have said this
        else:
            refused[member] = answer.refused

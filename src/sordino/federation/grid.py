"""A Flower grid in one process: real ClientApps over real messages, without Ray, sockets or processes.

It is for tests, and for trying a federation of hundreds of nodes: `docs/federation.md`. Every message is turned into
Flower's own bytes and back on its way, so that nothing is shared by accident; a node gets a fresh context each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

Fate = Literal["answer", "deaf", "mute", "gone"]
"""What becomes of a request: it is answered; never reaches its node; is answered into the void; Flower says so."""

Fates = Callable[[int, str], Fate]
"""Given a Flower node and a message type, what becomes of the request."""

SUPERLINK = 1
"""The node id under which Flower itself answers."""


@dataclass(eq=False)
class InProcessGrid(Grid):
    """Flower nodes by id, each with a ClientApp and what its SuperNode was started with.

    **Formal guarantees**: messages are serialised both ways; `Context.state` does not outlive a message, as it does not
    outlive a node. Errors of a ClientApp become Flower's error replies, with the SuperLink as their sender.
    """

    apps: dict[int, ClientApp]
    node_configs: Mapping[int, dict[str, str | int | float | bool]]
    fates: Fates = lambda node, kind: "answer"
    run_config: dict[str, str | int | float | bool] = field(default_factory=dict)
    traffic: dict[str, list[int]] = field(default_factory=dict)
    """By message type: requests, bytes to nodes, bytes from nodes."""
    _replies: dict[str, Message] = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self) -> None:
        # what Flower tells a process that it starts: messages cannot be made without it
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 0, SUPERLINK, 0

    def set_run(self, run: Run) -> None:
        raise NotImplementedError("an in-process grid has one run, its own")

    @property
    def run(self) -> Run:
        raise NotImplementedError("an in-process grid has one run, its own")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.apps)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._deliver(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = [self._replies.pop(told, None) for told in message_ids]
        return [reply for reply in found if reply is not None]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(list(self.push_messages(messages)))

    def _deliver(self, message: Message) -> str:
        self._count += 1
        told, node, kind = f"message-{self._count}", message.metadata.dst_node_id, message.metadata.message_type
        message.metadata.__dict__["_message_id"] = told
        message.metadata.__dict__["_src_node_id"] = SUPERLINK
        fate = self.fates(node, kind) if node in self.apps else "gone"
        if fate == "gone":
            self._replies[told] = self._error(message, "the node is gone")
        elif fate != "deaf":
            reply = self._played(message, node, kind)
            if fate == "answer":
                self._replies[told] = reply
        return told

    def _played(self, message: Message, node: int, kind: str) -> Message:
        context = Context(0, node, dict(self.node_configs.get(node, {})), RecordDict(), dict(self.run_config))
        wire = message_to_proto(message).SerializeToString()
        try:
            reply = self.apps[node](_read(wire), context)
        except Exception as error:  # as a SuperNode does, whatever a ClientApp raises
            return self._error(message, f"{type(error)}:<'{error}'>")
        seen = self.traffic.setdefault(kind, [0, 0, 0])
        back = message_to_proto(reply).SerializeToString()
        self.traffic[kind] = [seen[0] + 1, seen[1] + len(wire), seen[2] + len(back)]
        return _read(back)

    def _error(self, message: Message, reason: str) -> Message:
        reply = Message(Error(code=0, reason=reason), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = SUPERLINK
        return reply


def _read(wire: bytes) -> Message:
    return message_from_proto(ProtoMessage.FromString(wire))

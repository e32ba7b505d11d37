"""A grid that plays ClientApps in this process, and a small app to play with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from sordino.federation.grid import Fate, InProcessGrid

Learn = Callable[[dict[str, np.ndarray], int], Mapping[str, Any]]
"""From the model's arrays and a node id to what the node's training makes of them."""


class TinyGrid(InProcessGrid):
    """The grid, and what was sent and answered. `lost` nodes answer nothing; for `broken` ones Flower does."""

    def __init__(
        self, apps: Mapping[int, ClientApp], run_config: dict[str, Any], node_configs: Mapping[int, dict] | None = None
    ):
        self.lost: set[int] = set()
        self.broken: set[int] = set()
        self.sent: list[Message] = []
        self.replies: list[Message] = []
        super().__init__(dict(apps), node_configs or {}, self._fate, run_config)

    def _fate(self, node: int, kind: str) -> Fate:
        return "deaf" if node in self.lost else "gone" if node in self.broken else "answer"

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        asked = list(messages)
        self.sent += copy.deepcopy(asked)
        answers = list(super().send_and_receive(asked))
        self.replies += answers
        return answers


def record(arrays: Mapping[str, Any]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def app_of(learn: Learn, mods: list[Any] | None = None, examples: float = 10) -> ClientApp:
    """Returns a ClientApp whose training is `learn`, written as anybody writes one."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = {name: np.array(array.numpy()) for name, array in message.content["arrays"].items()}
        learned = learn(arrays, context.node_id)
        metrics = MetricRecord({"num-examples": examples, "loss": 0.25})
        return Message(RecordDict({"arrays": record(learned), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"num-examples": 10, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def server_context(run_config: dict[str, Any]) -> Context:
    return Context(7, 0, {}, RecordDict(), run_config)


def grow(by: float) -> Learn:
    """Returns training that adds `by` to every float entry, and counts a batch in every integer one."""

    def learn(arrays: dict[str, np.ndarray], node: int) -> Mapping[str, Any]:
        return {n: (a + (by if a.dtype.kind == "f" else 1)).astype(a.dtype) for n, a in arrays.items()}

    return learn


MODEL = {
    "weight": np.zeros((3, 2), np.float32),
    "scale": np.float32(1.0),
    "batches": np.int64(5),
    "bias": np.ones(2, np.float64),
}
"""A model with a 0-d parameter, an integer buffer and two float types: 9 trained numbers."""


def exact_mod(seed: int) -> Any:
    """Returns the mod with seeded draws, each node its own."""
    from sordino.flower.mod import answer
    from sordino.random.streams import Streams

    def mod(message: Message, context: Context, call_next: Any) -> Message:
        return answer(message, context, call_next, Streams(f"{seed}/{context.node_id}"))

    return mod


def federation(
    run_config: dict[str, Any], learn: Learn, nodes: Iterable[int] = (11, 12, 13, 14), **app: Any
) -> TinyGrid:
    """Returns a grid of nodes that all learn the same way, made private."""
    from sordino.flower import private_mod

    return TinyGrid({node: app_of(learn, [private_mod], **app) for node in nodes}, run_config)

"""How a private run uses the strategy that it wraps: asked for a message, and told a release as if one reply came.

So everything that the wrapped strategy does with a result (momentum, Adam, its own averaging) is post-processing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from sordino.errors import CompositionError


class CohortOfOne(Grid):
    """A grid with as many nodes as a strategy waits for, and nobody behind them: who is asked is not its choice."""

    def __init__(self, strategy: Strategy) -> None:
        wanted = (getattr(strategy, name, 1) for name in ("min_available_nodes", "min_train_nodes"))
        self._count = max(1, *(int(count) for count in wanted))

    def get_node_ids(self) -> Iterable[int]:
        return range(1, self._count + 1)

    def set_run(self, run: Any) -> NoReturn:
        self._refuse()

    @property
    def run(self) -> NoReturn:
        self._refuse()

    def create_message(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def push_messages(self, messages: Iterable[Message]) -> NoReturn:
        self._refuse()

    def pull_messages(self, message_ids: Iterable[str]) -> NoReturn:
        self._refuse()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise CompositionError("a wrapped strategy may not send messages of its own: nothing would charge for them")


def content_for(
    strategy: Strategy, server_round: int, trained: ArrayRecord, whole: ArrayRecord, config: ConfigRecord
) -> tuple[RecordDict, Message]:
    """Returns what the strategy would send this round, with the whole model in it, and one of its messages.

    Raises:
        CompositionError: it would send nothing, or something else than one model.
    """
    with _quietly():
        messages = list(strategy.configure_train(server_round, trained, config, CohortOfOne(strategy)))
    if not messages:
        raise CompositionError("the wrapped strategy asks nobody to train: raise its fraction_train above 0")
    content = messages[0].content
    if len(content.array_records) != 1:
        raise CompositionError("the wrapped strategy sends more than one model: wrap one that sends one ArrayRecord")
    return RecordDict({n: whole if n in content.array_records else record for n, record in content.items()}), messages[
        0
    ]


def tell(
    strategy: Strategy, server_round: int, released: ArrayRecord, asked: Message
) -> tuple[ArrayRecord | None, MetricRecord | None]:
    """Returns what the strategy makes of a released model."""
    weight = getattr(strategy, "weighted_by_key", "num-examples")
    key = next(iter(asked.content.array_records))
    content = RecordDict({key: released, "metrics": MetricRecord({weight: 1})})
    with _quietly():
        return strategy.aggregate_train(server_round, [Message(content, reply_to=asked)])


@contextmanager
def _quietly() -> Iterator[None]:
    """Keeps the wrapped strategy from logging how many nodes it sampled and heard: those are not the run's."""
    log = logging.getLogger("flwr")
    level = log.level
    log.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        log.setLevel(level)

"""Parcels to Flower nodes, and their answers: one that Flower cannot read harms nobody but its sender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from httpx import HTTPError

from sordino.errors import ProtocolError
from sordino.federation.messages import Parcel, Stage

K = TypeVar("K")

UNREADABLE = "it sent what Flower cannot read: it is left out"


@dataclass(eq=False)
class FlowerWire:
    """Flower's grid, as the server uses it."""

    grid: Grid
    lifetime: float
    """Seconds for which a SuperLink keeps an unanswered request."""
    unreadable: set[str] = field(default_factory=set)
    """Messages whose answer Flower itself could not read."""
    _one_by_one: bool = False

    def nodes(self) -> set[int]:
        """Returns the Flower nodes that are connected."""
        return {int(node) for node in self.grid.get_node_ids()}

    def push(self, parcels: Mapping[K, tuple[int, Parcel]], stage: Stage) -> dict[str, K]:
        """Sends parcels to Flower nodes; returns the key of each by the id of its message."""
        messages = [
            Message(parcel.pack(), node, f"query.{stage}", ttl=self.lifetime) for node, parcel in parcels.values()
        ]
        try:
            ids = list(self.grid.push_messages(messages)) if messages else []
        except ObjectPushError:  # Flower's own, on a machine that is too busy; some of the messages may be on their way
            raise ProtocolError("the SuperLink lost a message on its way in: the round is given up") from None
        return {told: key for told, key in zip(ids, parcels, strict=False) if told}

    def pull(self, ids: list[str]) -> list[Message]:
        """Returns the answers that came.

        Flower reads many answers at once and stumbles over one of them for all; those that it had confirmed by then
        are gone. So it is given one at a time from the first such answer on, and whoever sends another harms nobody.
        """
        if not self._one_by_one:
            try:
                return list(self.grid.pull_messages(ids)) if ids else []
            except (OSError, HTTPError):
                raise  # the SuperLink is gone
            except Exception:
                self._one_by_one = True
        came, failures = list[Message](), list[Exception]()
        for one in ids:
            try:
                came += self.grid.pull_messages([one])
            except (OSError, HTTPError):
                raise
            except Exception as error:
                failures.append(error)
                self.unreadable.add(one)
        if len(failures) == len(ids) > 1:
            raise failures[0]  # no member can do that
        return came

"""What is happening in a federation now: written by the ServerApp, read by `sordino federation status`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sordino.files import PRIVATE, replace_file

NodeState = Literal["absent", "idle", "asked", "answered", "late", "lost", "refused"]
"""absent: not connected; asked: an answer is due; late: past the deadline; lost: gone since; refused: it said no."""


class NodeStatus(BaseModel):
    """One member, as the server sees it."""

    model_config = ConfigDict(extra="forbid")

    name: str
    number: int
    state: NodeState = "absent"
    round: int = 0
    """The last round in which it was asked."""
    stage: str = ""
    """The stage of that round that it was asked for last (query action)."""
    since: float = 0.0
    """When it came into this state (Unix time)."""
    answered: int = 0
    """Rounds that it finished."""
    note: str = ""
    """Its refusal, or why it was lost: one sentence."""


class FederationStatus(BaseModel):
    """The run as a whole."""

    model_config = ConfigDict(extra="forbid")

    federation: str
    run: str = ""
    state: Literal["waiting", "running", "stopped", "failed", "interrupted"] = "waiting"
    round: int = 0
    rounds: int = 0
    stage: str = ""
    deadline: float = 0.0
    """When the server stops waiting for this stage's answers (Unix time); 0 for no stage."""
    registry_version: int = 0
    epsilon: dict[str, float | None] = Field(default_factory=dict)
    """The worst member's ε so far, by guarantee; None where nothing bounds it."""
    accuracy: float | None = None
    nodes: list[NodeStatus] = Field(default_factory=list)
    events: list[str] = Field(default_factory=list)
    """The last things that happened, oldest first: aborted rounds, lost nodes, refusals."""
    updated: float = 0.0

    def node(self, number: int) -> NodeStatus:
        """Returns the member with this number."""
        return next(node for node in self.nodes if node.number == number)

    def write(self, path: Path) -> None:
        """Writes it whole, so that a reader never sees half of it; what a power cut takes is written anew."""
        self.updated = time.time()
        self.events = self.events[-50:]
        replace_file(path, self.model_dump_json(indent=1).encode(), PRIVATE, durable=False)

    @classmethod
    def read(cls, path: Path) -> FederationStatus | None:
        """Returns the last status, or None when there is none yet."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            return None

"""How long a server waits for its nodes, and how often it looks for their answers."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.federation.messages import Stage

SOONEST, LATEST = 0.02, 0.5
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

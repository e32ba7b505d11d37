"""What the ServerApp tells its operator while it runs: `status.json`, and a line of log for everything unusual."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Literal

from sordino.federation.folder import FederationFolder
from sordino.federation.registry import MemberRegistry
from sordino.federation.status import FederationStatus, NodeState, NodeStatus

_LOG = logging.getLogger("sordino.federation")
_LONGEST = 400
"""Letters of what a member says."""
_STATES: dict[str, NodeState] = {
    "present": "idle",
    "asked": "asked",
    "answered": "answered",
    "lost": "lost",
    "error": "lost",
    "refused": "refused",
    "blamed": "refused",
}


class Telling:
    """Keeps the status file up to date: who is there, which stage is open, what was refused and why."""

    def __init__(
        self,
        folder: FederationFolder,
        registry: MemberRegistry,
        run: str,
        rounds: int,
        spent: Callable[[], dict[str, float | None]],
    ) -> None:
        self._path, self._spent = folder.status_file, spent
        nodes = [NodeStatus(name=member.name, number=member.number) for member in registry.active]
        self._status = FederationStatus(
            federation=folder.name, run=run, rounds=rounds, registry_version=registry.version, nodes=nodes
        )
        self._status.write(self._path)

    def member(self, what: str, number: int, sentence: str) -> None:
        """Notes what happened to a member; −1 stands for a node that nobody knows."""
        sentence = _line(sentence)
        known = [node for node in self._status.nodes if node.number == number]
        for node in known:
            node.state, node.note, node.since = _STATES.get(what, node.state), sentence, time.time()
            node.answered += what == "answered" and self._status.stage in ("contribute", "unmask")
            if what == "asked":
                node.round, node.stage = self._status.round, self._status.stage
        if sentence:
            self.event(f"{known[0].name if known else 'unknown'}: {sentence}")
        elif what == "present":
            self._status.write(self._path)

    def stage(self, stage: str, round_: int, asked: Iterable[int], seconds: float) -> None:
        """Notes that a stage is open, whom it asked, and how long it waits."""
        self._status.stage, self._status.round = stage, round_
        self._status.state, self._status.deadline = "running", time.time() + seconds
        for number in asked:
            self.member("asked", number, "")
        self._status.write(self._path)

    def event(self, sentence: str) -> None:
        """Notes something that the operator should read; what was said before is not said again."""
        if sentence not in self._status.events:
            _LOG.warning(sentence)
            self._status.events.append(sentence)
        self._status.write(self._path)

    def waiting(self, there: int, needed: int) -> None:
        """Notes that a round cannot begin yet."""
        self._status.state, self._status.stage = "waiting", f"{there} of {needed} nodes"
        self._status.deadline = 0.0
        self._status.write(self._path)

    def round_over(self, round_: int, accuracy: float | None) -> None:
        """Notes what a round came to."""
        self._status.round, self._status.stage, self._status.deadline = round_, "", 0.0
        self._status.accuracy = self._status.accuracy if accuracy is None else accuracy
        self._status.epsilon = self._spent()
        _LOG.info("round %d of %d is over", round_, self._status.rounds)
        self._status.write(self._path)

    def ended(self, state: Literal["stopped", "failed", "interrupted"], why: str) -> None:
        """Notes the end."""
        self._status.state, self._status.stage, self._status.deadline = state, "", 0.0
        self.event(why) if why else self._status.write(self._path)


def _line(sentence: str) -> str:
    """Returns what a member said as one line that a terminal only prints: members write these sentences themselves."""
    plain = "".join(letter if letter.isprintable() else " " for letter in sentence[:_LONGEST])
    return plain + "…" * (len(sentence) > _LONGEST)

"""Plays a federation's run from the operator's side: SuperLink, members, run; whatever dies is started again.

Everything that matters is on disk (run folder, ledger, registry, SuperLink's database), so this process, the SuperLink
and the ServerApp may each be killed at any moment: started again, the run goes on with nothing forgotten.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sordino.errors import FederationError
from sordino.federation.control import Control, control
from sordino.federation.folder import FederationFolder
from sordino.federation.idle import refuse_idle
from sordino.federation.processes import Started, answers, start_superlink
from sordino.federation.settings import require_flower
from sordino.federation.status import FederationStatus

_LOOK = 0.5
_STARTUP = 300.0
"""Seconds in which a ServerApp must have begun."""
_RESTARTS = 20

Watcher = Callable[[FederationStatus], None]
Config = Mapping[str, float]


@dataclass
class Operation:
    """One run of a federation, as its operator keeps it going."""

    folder: FederationFolder
    config: Config = field(default_factory=dict)
    """Deadlines in seconds: stage-seconds, train-seconds, gather-seconds."""
    watch: Watcher = lambda status: None
    tell: Callable[[str], None] = lambda sentence: None
    host: str = "127.0.0.1"
    """Address at which a SuperLink that is started here listens."""

    def play(self) -> FederationStatus:
        """Starts or resumes the run, and returns its last status.

        Raises:
            RecipeError: a setting of the recipe has no effect across machines; nothing was started.
            FederationError: the run stopped with a reason that somebody has to see to.
        """
        require_flower()
        refuse_idle(self.folder)
        self.folder.status_file.unlink(missing_ok=True)
        with ExitStack() as ending:
            link: Started | None = None
            for _ in range(_RESTARTS):
                if not answers(self.folder.about["port"]):
                    self.tell("the SuperLink is started")
                    link = start_superlink(self.folder.path, self.host)
                    ending.callback(link.stop)
                if (ended := self._once()) is not None:
                    return ended
                self.tell("the run is resumed from the run folder")
        raise FederationError(
            f"the run was started {_RESTARTS} times and never got to its end: see {self.folder.superlink_dir}"
        )

    def _once(self) -> FederationStatus | None:
        """Starts the run; returns its last status, or None when SuperLink or ServerApp died on the way."""
        try:
            with control(self.folder) as link:
                self._let_in(link)
                self._pid.unlink(missing_ok=True)
                run = link.start_run(self.config)
                status = self._follow(link)
                if status is None:
                    link.stop_run(run)
                return status
        except FederationError:
            if answers(self.folder.about["port"]):
                raise
            self.tell("the SuperLink is gone")
            return None

    def _follow(self, link: Control) -> FederationStatus | None:
        """Watches the run until its end; registers members that join meanwhile."""
        began, version, seen = time.monotonic(), self.folder.registry.version, 0.0
        while True:
            time.sleep(_LOOK)
            status = FederationStatus.read(self.folder.status_file)
            if status is not None and status.updated != seen:
                seen = status.updated
                self.watch(status)
            if status is not None and status.state == "stopped":
                return status
            if status is not None and status.state == "failed":
                raise FederationError(status.events[-1] if status.events else "the run failed: see serverapp.log")
            if status is not None and status.state == "interrupted":
                self.tell("the ServerApp was interrupted")
                self.folder.status_file.unlink(missing_ok=True)
                return None
            if not self._alive() and (self._pid.exists() or time.monotonic() - began > _STARTUP):
                self.tell("the ServerApp is gone")
                return None
            if not answers(self.folder.about["port"]):
                raise FederationError("the SuperLink is gone")
            if self.folder.registry.version != version:
                version = self.folder.registry.version
                self._let_in(link)

    def _let_in(self, link: Control) -> None:
        if new := link.register_members():
            self.tell(f"may log in from now on: {', '.join(new)}")

    @property
    def _pid(self) -> Path:
        return self.folder.serverapp_pid

    def _alive(self) -> bool:
        try:
            os.kill(int(self._pid.read_text()), 0)
        except PermissionError:  # it is there, and another user's
            return True
        except (OSError, ValueError):
            return False
        return True

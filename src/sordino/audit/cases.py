"""What `sordino audit --all` audits: every mechanism in both modes, each where it can be told whether it holds.

The cases themselves stand in the mechanisms' own files (`MechanismSpec.audit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import attrs

from sordino.audit.finding import Finding
from sordino.audit.run_game import GameWatcher
from sordino.audit.scene import Scene, stage
from sordino.audit.whitebox import audit, guarantees
from sordino.events import Guarantee
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.spec import AuditCase
from sordino.types import Mode


@dataclass(frozen=True)
class Case:
    """One mechanism, and one of the ways in which it is attacked."""

    mechanism: str
    how: AuditCase

    @property
    def mode(self) -> Mode:
        """Certified, or as printed."""
        return self.how.mode

    def scene(self) -> Scene:
        """Returns the mechanism on its stage."""
        return stage(self.mechanism, self.how.mode, self.how.settings, self.how.clients, self.how.records)

    def audits(
        self,
        trials: int | None = None,
        seed: int = 0,
        workers: int = 2,
        told: GameWatcher = lambda done, of: None,
    ) -> list[Finding]:
        """Attacks every promise of the mechanism; `told` hears how far that is."""
        scene, printed = self.scene(), self.how.printed
        if printed is not None and scene.mechanism.claim is not None:
            claim = replace(scene.mechanism.claim, epsilon=lambda times, delta: printed)
            scene = replace(scene, mechanism=replace(scene.mechanism, claim=claim))
        promises = self._promises(scene)

        def share(place: int) -> GameWatcher:
            return lambda done, of: told(place * of + done, len(promises) * of)

        count = trials or self.how.trials
        found = [audit(scene, g, count, seed, workers, share(place)) for place, g in enumerate(promises)]
        return [self._explained(finding) for finding in found]

    def _promises(self, scene: Scene) -> list[Guarantee]:
        promises, adjacency = guarantees(scene), self.how.adjacency
        return promises if adjacency is None else [attrs.evolve(promises[0], adjacency=adjacency)]

    def _explained(self, finding: Finding) -> Finding:
        flawed = finding.mode == "faithful" and finding.verdict == "violated"
        why = MECHANISMS[finding.mechanism].flaw if flawed else ""
        return replace(finding, settings=self.how.settings, explanation=why)


def case_for(mechanism: str, mode: Mode, settings: Sequence[str]) -> Case:
    """Returns the case of a mechanism by name: the first one of its mode, with further settings on top."""
    listed = [case for case in MECHANISMS[mechanism].audit if case.mode == mode]
    first = listed[0] if listed else AuditCase(mode)
    how = replace(first, settings=(*first.settings, *settings), printed=None if settings else first.printed)
    return Case(mechanism, how)


def cases() -> list[Case]:
    """Returns every case of every mechanism, certified ones first."""
    every = [Case(name, case) for name, spec in MECHANISMS.items() for case in spec.audit]
    return sorted(every, key=lambda case: case.mode != "certified")

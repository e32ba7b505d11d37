"""What `sordino audit --all` audits: every mechanism in both modes, each where it can be told whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import attrs

from sordino.audit.finding import Finding
from sordino.audit.flaws import FLAWS
from sordino.audit.scene import CLIENTS, RECORDS, Scene, stage
from sordino.audit.whitebox import audit, guarantees
from sordino.events import Guarantee
from sordino.types import Adjacency, Mode


@dataclass(frozen=True)
class Case:
    """One mechanism in one mode with its settings, and what a paper says about just these."""

    mechanism: str
    mode: Mode = "certified"
    settings: tuple[str, ...] = ()
    clients: int = CLIENTS
    records: int = RECORDS
    adjacency: Adjacency | None = None
    """The paper's own neighbouring relation, where it is not the mechanism's default."""
    printed: float | None = None
    """An ε that the paper prints for these settings, in place of what its formula gives."""
    trials: int | None = None

    def scene(self) -> Scene:
        """Returns the mechanism on its stage."""
        return stage(self.mechanism, self.mode, self.settings, self.clients, self.records)

    def audits(self, trials: int | None = None, seed: int = 0, workers: int = 2) -> list[Finding]:
        """Attacks every promise of the mechanism."""
        scene = self.scene()
        if self.printed is not None and scene.mechanism.claim is not None:
            printed = self.printed
            claim = replace(scene.mechanism.claim, epsilon=lambda times, delta: printed)
            scene = replace(scene, mechanism=replace(scene.mechanism, claim=claim))
        found = [audit(scene, g, trials or self.trials, seed, workers) for g in self._promises(scene)]
        return [self._explained(finding) for finding in found]

    def _promises(self, scene: Scene) -> list[Guarantee]:
        promises = guarantees(scene)
        return promises if self.adjacency is None else [attrs.evolve(promises[0], adjacency=self.adjacency)]

    def _explained(self, finding: Finding) -> Finding:
        flawed = finding.mode == "faithful" and finding.verdict == "violated"
        return replace(finding, settings=self.settings, explanation=FLAWS.get(finding.mechanism, "") if flawed else "")


def case_for(mechanism: str, mode: Mode, settings: Sequence[str]) -> Case:
    """Returns the case of a mechanism by name: the listed one of its mode, with further settings on top."""
    listed = [case for case in CASES if (case.mechanism, case.mode) == (mechanism, mode)]
    first = listed[0] if listed else Case(mechanism, mode)
    return replace(first, settings=(*first.settings, *settings), printed=None if settings else first.printed)


CASES: tuple[Case, ...] = (
    Case("fedavg"),
    Case("fed_ldp"),
    Case("fed_ldp", settings=("mechanism.adjacency=replace", "run.rounds=4", "budget.epsilon=4")),
    Case("laplace"),
    Case("dp_fedavg"),
    Case("dp_fedavg", settings=("select.kind=poisson", "select.rate=0.2")),
    Case("dp_fedavg_adaptive", trials=20_000),
    Case("dp_sgd"),
    Case("dp_sgd", settings=("mechanism.sampling_rate=0.2",)),
    Case("dp_sgd", settings=("aggregate.kind=secure",), trials=100_000),
    Case("component_adaptive", settings=("run.rounds=3",)),
    Case("component_adaptive", settings=("run.rounds=3", "mechanism.trust=distributed", "mechanism.shape=box")),
    Case("dropout_robust", settings=("aggregate.tolerance=0.5",)),
    Case("dropout_robust", settings=("aggregate.kind=secure", "aggregate.tolerance=0.25"), trials=50_000),
    Case("a_dpfl", settings=("run.rounds=2",), trials=4_000_000),
    Case("fed_cad", settings=("run.rounds=4",)),
    Case("geometric", settings=("run.rounds=4",)),
    Case("component_adaptive", "faithful", ("mechanism.noise_multiplier=26", "run.rounds=7"), trials=200_000),
    Case(
        "dropout_robust",
        "faithful",
        ("mechanism.form=plain", "mechanism.noise_multiplier=1", "aggregate.tolerance=0.34"),
        clients=3,
        adjacency="replace",
        trials=10_000_000,
    ),
    Case(
        "dropout_robust",
        "faithful",
        ("mechanism.form=extended", "mechanism.noise_multiplier=1.5", "aggregate.tolerance=0.34"),
        clients=3,
        adjacency="replace",
        trials=20_000_000,
    ),
    Case("a_dpfl", "faithful", ("mechanism.noise_multiplier=1", "mechanism.clip_norm=4"), trials=200_000),
    Case(
        "fed_cad",
        "faithful",
        (
            "mechanism.noise_multiplier=0.3",
            "mechanism.clip_norm=1",
            "mechanism.adjacency=replace",
            "train.batch_size=60",
            "run.rounds=2",
        ),
        records=600,
        printed=2.72,  # MNIST, 30 rounds; a lower bound for two of them is one for all
        trials=500_000,
    ),
    Case(
        "geometric",
        "faithful",
        (
            "mechanism.clip_norm=5",
            "mechanism.adjacency=replace",
            "budget.epsilon=10",
            "budget.delta=0.001",
            "select.kind=fixed",
            "select.size=1",
            "run.rounds=3",
        ),
        clients=10,
        records=600,
        trials=1_000_000,
    ),
)
"""Settings of faithful cases are the papers' own (docs/audit.md says where each comes from)."""

"""Games about what surrounds a release: cohorts, files, streams, ends and books, each a question that has a finding.

`sordino audit NAME` plays one of them, `sordino audit --all` plays all. Each decides between two neighbouring worlds
from what an observer sees (or lets the books forget what one saw) and holds that against what is certified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from sordino.account.certificate.document import Promise
from sordino.audit import early_end, forgetting, published_files, shared_streams, stopping
from sordino.audit.attack import Attack, walk
from sordino.audit.cohorts import CohortGame
from sordino.audit.finding import Finding
from sordino.audit.run_game import GameWatcher, RunGame
from sordino.audit.scene import stage
from sordino.audit.small_runs import aside, document_of, small_federation, small_run
from sordino.audit.whitebox import attacked

_SUMS = ("mechanism.name=dropout_robust", "aggregate.kind=plain")
_COHORT_TRIALS = 40_000


@dataclass(frozen=True)
class AuditGame:
    """One game by name."""

    name: str
    question: str
    played: Callable[[int, GameWatcher], list[Finding]]

    def play(self, seed: int = 0, told: GameWatcher = lambda done, of: None) -> list[Finding]:
        """Plays it, and returns what it found."""
        return [replace(found, game=self.name) for found in self.played(seed, told)]


def _cohorts(
    settings: tuple[str, ...], clients: int, others: float, silent: int = 0
) -> Callable[[int, GameWatcher], list[Finding]]:
    """Returns the play of a game of cohorts: who else is there says `others` times the target's own update."""

    def played(seed: int, told: GameWatcher) -> list[Finding]:
        scene = stage("dropout_robust", settings=(*_SUMS[1:], *settings), clients=clients)
        path = walk(scene, seed)
        promise = next(c.guarantee for c in path.quotes[0] if c.guarantee.observer == "outsider")
        along = torch.eye(scene.width)[0] * path.knobs[0].clip_norm
        attack = Attack(along, (1.0,) * scene.rounds, along * others, silent=silent)
        return [attacked(CohortGame(scene, promise, path, attack), _COHORT_TRIALS, seed, told=told)]

    return played


def _files(seed: int, told: GameWatcher) -> list[Finding]:
    with aside() as place:
        small_run(place / "run", published_files.SETTINGS, seed, small_federation(test=False))
        promise = document_of(place / "run").promise("client", "outsider")
    words = "whatever stands in files that others may read, beside losses and digests computed for both worlds"
    game = RunGame(published_files.play, published_files.learn, words, pilot=5, trials=12)
    return [game.decide(promise, "dp_fedavg", 8, seed, told)]


def _streams(seed: int, told: GameWatcher) -> list[Finding]:
    words = "the difference of two models that were trained with one seed on one ledger"
    game = RunGame(shared_streams.play, shared_streams.learn, words, pilot=5, trials=12)
    return [game.decide(_joint(seed), "dp_fedavg", 2, seed, told)]


def _joint(seed: int) -> Promise:
    """Returns what two runs on one ledger promise together."""
    with aside() as place:
        for name in ("one", "two"):
            small_run(
                place / name, (*shared_streams.SETTINGS, f"ledger.path={place}/shared.db"), seed, small_federation()
            )
        return document_of(place / "two").promise("client", "outsider")


def _ends(seed: int, told: GameWatcher) -> list[Finding]:
    promise = early_end.promised(seed)
    words = "the round in which a run ended that needs as many clients as there are"
    game = RunGame(early_end.play(promise.adjacency), early_end.learn, words, pilot=5, trials=12)
    return [game.decide(promise, "dropout_robust", early_end.ROUNDS, seed, told)]


def _stops(seed: int, told: GameWatcher) -> list[Finding]:
    return [stopping.play(seed, told)]


_POISSON = ("select.kind=poisson", "select.rate=0.9", "budget.epsilon=1")

GAMES: dict[str, AuditGame] = {
    game.name: game
    for game in (
        AuditGame(
            "displaced-cohorts",
            "does it show that somebody else is in the place of a client who left?",
            _cohorts(("select.kind=fixed", "select.size=3", "budget.epsilon=4"), clients=4, others=-1.0),
        ),
        AuditGame("empty-rounds", "does it show that nobody took part?", _cohorts(_POISSON, clients=2, others=0.0)),
        AuditGame(
            "aborted-rounds",
            "does it show who took part that a round was aborted?",
            _cohorts((*_POISSON, "aggregate.tolerance=0.34"), clients=3, others=0.0, silent=1),
        ),
        AuditGame("shared-streams", "do two runs on one ledger share noise?", _streams),
        AuditGame("stopping-times", "does a stop at the best moment tell more than is certified?", _stops),
        AuditGame("early-ends", "does the end of a run show who was there?", _ends),
        AuditGame("published-files", "do the files that others may read tell who took part?", _files),
        AuditGame("forgetting", "can the books be made to show less than was released?", forgetting.play),
    )
}
"""Every game, by name."""

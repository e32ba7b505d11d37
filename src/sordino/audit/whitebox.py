"""The white-box audit: worst inputs through the real release path, and what that proves about ε."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from sordino.audit.attack import walk
from sordino.audit.cohorts import CohortGame
from sordino.audit.counts import Counts
from sordino.audit.finding import Evidence, Finding, judge
from sordino.audit.game import Game
from sordino.audit.hunt import hunt
from sordino.audit.low_bits import LowBits
from sordino.audit.promise import AuditedPromise
from sordino.audit.run_game import GameWatcher
from sordino.audit.scene import Scene
from sordino.audit.statistic import Discriminant, LikelihoodRatio, Statistic, Views, separation
from sordino.audit.threshold import Cuts, choose
from sordino.events import DpEvent, Guarantee
from sordino.mechanism import INTEGERS, ON_GRID

_BATCH = {"crowd": 1 << 15, "fold": 1 << 15, "one by one": 500}
_PILOT = {"crowd": 1 << 18, "fold": 1 << 18, "one by one": 4000}


def audit(
    scene: Scene,
    guarantee: Guarantee,
    trials: int | None = None,
    seed: int = 0,
    workers: int = 2,
    told: GameWatcher = lambda done, of: None,
) -> Finding:
    """Attacks one guarantee of a mechanism and reports what the attack proves.

    Args:
        scene: the mechanism on its stage.
        guarantee: the promise to attack.
        trials: how many plays of each world are counted (None: as many as it takes to see the promised ε).
        seed: of everything that is random.
        workers: threads that play at once.
        told: is told how many of how many batches of trials are counted.

    **Formal guarantees**: the lower bound exceeds the true ε with probability at most 5 %: attack, test and thresholds
    are chosen on other trials than those that are counted.
    """
    began = time.perf_counter()
    path = walk(scene, seed)
    game = Game(scene, guarantee, path, hunt(scene, guarantee, path, seed + 1))
    return attacked(game, trials, seed, workers, told, began)


def attacked(
    game: Game | CohortGame,
    trials: int | None,
    seed: int,
    workers: int = 2,
    told: GameWatcher = lambda done, of: None,
    began: float | None = None,
) -> Finding:
    """Plays a game whose attack is chosen: learns a test on pilot trials, counts fresh ones, and judges."""
    began, scene = time.perf_counter() if began is None else began, game.scene
    promise = AuditedPromise.of(scene, game.guarantee, game.path)
    count = trials or _enough(promise, game)
    test, cuts = _learn(game, promise, count, seed + 2)
    telling, middle = _count(game, test, cuts, count, seed, workers, told)
    evidence = Evidence(telling, middle, test.name, game.attack.describe(scene), count)
    return judge(scene.mechanism, promise, scene.rounds, evidence, time.perf_counter() - began)


def guarantees(scene: Scene) -> list[Guarantee]:
    """Returns the promises that are worth an attack.

    The server of central trust is trusted, and nothing is promised about it. Under local trust the outsider sees a
    function of the messages, so the attack on the server's promise is the stronger one, unless the outsider is promised
    more (the noise of everybody's messages in the sum): then both are attacked. Papers speak of the server.
    """
    mechanism, quotes = scene.mechanism, walk(scene, 0).quotes[0]
    central, faithful = mechanism.trust == "central", mechanism.claim is not None
    servers = {charge.guarantee.adjacency: charge.event for charge in quotes if charge.guarantee.observer == "server"}

    def worth(told: Guarantee, event: DpEvent) -> bool:
        if told.observer == "server":
            return not central
        alike = mechanism.trust == "local" and event == servers.get(told.adjacency)
        return central or not (faithful or alike)

    return [charge.guarantee for charge in quotes if worth(charge.guarantee, charge.event)]


def _enough(promise: AuditedPromise, game: Game | CohortGame) -> int:
    """Returns how many trials show an ε of this size: rare events tell most, and are the rarer the larger ε is."""
    if game.way == "one by one":
        return 20_000
    if game.scene.mechanism.trust == "local" and game.guarantee.observer == "outsider":
        return 2_000_000  # everybody's messages are drawn for every sum
    plain = 50_000_000 if 5 < promise.target < 12 else 10_000_000
    return max(2_000_000, plain // game.scene.rounds)


def _learn(game: Game | CohortGame, promise: AuditedPromise, trials: int, seed: int) -> tuple[Statistic, Cuts]:
    """Returns the test that promises most on pilot trials, and where to cut its scores."""
    pilot = min(_PILOT[game.way], max(500, trials // 4))
    taught, kept = ((game.views(False, pilot, seed + s), game.views(True, pilot, seed + s + 1)) for s in (1000, 2000))
    tests: list[Statistic] = [Discriminant.fit(*taught, quadratic=q) for q in (False, True)]
    known = LikelihoodRatio.fit(promise.events, *taught) if len(promise.events) == game.scene.rounds else None
    if known is not None and not _more_to_see(game, min(pilot, 20_000), seed):
        tests.insert(0, known)
    if game.scene.mechanism.perturber.arithmetic in (ON_GRID, INTEGERS):  # elsewhere low bits are not covered
        fine = LowBits.fit(*taught)
        tests += [fine] if fine is not None else []
    best, *others = [(t, choose(t.score(kept[0]), t.score(kept[1]), promise.delta, trials)) for t in tests]
    for test, cuts in others:
        # the first is the simplest, and the most powerful if all is as certified: another must be clearly better
        if cuts.apart > 1.05 * best[1].apart or cuts.promise > 0.5 + 1.3 * best[1].promise:
            best = test, cuts
    return best


def _more_to_see(game: Game | CohortGame, trials: int, seed: int) -> bool:
    """Returns whether the release says clearly less than it does together with all else that is seen."""
    worlds = game.views(False, trials, seed), game.views(True, trials, seed)
    alone = [Views(world.main, world.rest[:, :0]) for world in worlds]
    return separation(worlds[0], worlds[1]) > 1.04 * separation(alone[0], alone[1])


def _count(
    game: Game | CohortGame, test: Statistic, cuts: Cuts, trials: int, seed: int, workers: int, told: GameWatcher
) -> tuple[tuple[Counts, ...], Counts]:
    """Plays fresh trials of both worlds and returns how each cut did."""
    wanted = (*cuts.telling, cuts.middle)

    def play(batch: tuple[int, int]) -> list[Counts]:
        size, key = batch
        without, with_ = (test.score(game.views(p, size, ((seed + 1) << 32) + (key << 1) + p)) for p in (False, True))
        return [cut.count(without, with_) for cut in wanted]

    totals, batches = [Counts()] * len(wanted), list(_batches(trials, _BATCH[game.way]))
    with ThreadPoolExecutor(workers) as pool:
        for done, counts in enumerate(pool.map(play, batches)):
            told(done, len(batches))
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
    return tuple(totals[:-1]), totals[-1]


def _batches(trials: int, size: int) -> Iterator[tuple[int, int]]:
    for key, start in enumerate(range(0, trials, size)):
        yield min(size, trials - start), key

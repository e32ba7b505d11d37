"""The game of stopping times: the run ends as soon as what was released looks most like the target.

Whoever may end a run by what it released ends it when the evidence is best. If a run that ended after round k were
certified at the price of k rounds, each k would have a δ of its own, and the attacker would collect them all: it stops
in the first round whose likelihood ratio clearly exceeds what a stop there is certified at, and says that the target
was there.

Under the certificates of such stops, ε_k for round k, the chance of an accusation with the target is at most
Σ_k e^(ε_k)·(chance of one in round k without it) + δ. The certificates are those of real runs that stop at a target in
round k; the releases are played by the mechanism's own parts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino.account.certificate.document import Promise
from sordino.audit.attack import walk
from sordino.audit.counts import CONFIDENCE, at_least, at_most
from sordino.audit.finding import ALARM, Finding
from sordino.audit.game import Game
from sordino.audit.hunt import hunt
from sordino.audit.run_game import GameWatcher
from sordino.audit.scene import stage
from sordino.audit.small_runs import aside, document_of, small_federation, small_run
from sordino.audit.statistic import Views
from sordino.types import FloatArray, IntArray

ROUNDS = 32
STOPS = (1, 2, 4, 8, 16, 32)
"""Rounds in which the attacker may stop: a few of them, far apart, are nearly as good as all."""
MARGIN = 0.09
"""Optimal stopping asks for about so much more than the certificate, until the last round."""
SETTINGS = (
    "mechanism.name=dp_fedavg",
    "mechanism.noise_multiplier=8",
    "budget.epsilon=none",
    "budget.delta=0.02",
    f"run.rounds={ROUNDS}",
)
TRIALS = 120_000
_AT_ONCE = 20_000


@dataclass(frozen=True)
class Stops:
    """When accusations are made in many trials of one world: how many in each round."""

    rounds: IntArray
    trials: int


def stopped_after(round_: int, seed: int) -> Promise:
    """Returns what a run is certified at that reached its target in this round, and not before."""
    with aside() as place:
        stop = (f"run.evaluate_every={round_}", "run.target=0.1")
        small_run(place / "run", (*SETTINGS, *stop), seed, small_federation())
        return document_of(place / "run").promise("client", "outsider")


def play(seed: int, told: GameWatcher = lambda done, of: None) -> Finding:
    """Plays the game and holds the accusations against the certificates of the stops."""
    began = time.perf_counter()
    promises = list[Promise]()
    for done, round_ in enumerate(STOPS):
        told(done, 2 * len(STOPS))
        promises.append(stopped_after(round_, seed))
    prices = [math.inf if promise.epsilon is None else promise.epsilon for promise in promises]
    game = _game(seed)
    drift = _drift(game, seed + 1)
    told(len(STOPS), 2 * len(STOPS))
    stops = [_stops(game, drift, prices, present, seed) for present in (False, True)]
    delta, last = promises[-1].delta, promises[-1]
    gained = _gain(stops[1], stops[0], prices, ALARM)
    broken = gained > delta
    return Finding(
        mechanism=game.scene.mechanism.name,
        mode="certified",
        unit=last.unit,
        observer=last.observer,
        adjacency=last.adjacency,
        rounds=ROUNDS,
        delta=delta,
        claimed=None,
        certified=min(prices) if math.isfinite(min(prices)) else None,
        lower_bound=_bound(stops[1], stops[0], delta),
        gaussian_fit=None,
        curve_broken=broken,
        verdict="violated" if broken else "consistent",
        against="certified",
        test="likelihood ratio at the best moment",
        attack=f"a stop in the first round that tells more than a stop there is certified at; δ is {delta:g}, "
        f"and such stops are {max(0.0, gained):.4f} more frequent than their certificates allow, at least",
        trials=TRIALS,
        seconds=time.perf_counter() - began,
    )


def _game(seed: int) -> Game:
    scene = stage("dp_fedavg", settings=SETTINGS[1:])
    path = walk(scene, seed)
    guarantee = next(c.guarantee for c in path.quotes[0] if c.guarantee.observer == "outsider")
    return Game(scene, guarantee, path, hunt(scene, guarantee, path, seed + 1))


def _drift(game: Game, seed: int) -> tuple[FloatArray, FloatArray]:
    """Returns what the rounds release on average without the target, and by how much it moves them."""
    without, with_ = (
        game.views(present, _AT_ONCE, seed).main.mean(axis=0, dtype=np.float64) for present in (False, True)
    )
    return without, with_ - without


def _ratios(views: Views, drift: tuple[FloatArray, FloatArray], multiplier: float) -> FloatArray:
    """Returns the log-likelihood ratio after each round, `[trials, rounds]`."""
    origin, step = drift
    places = ((views.main - origin) * step).sum(axis=2) / np.square(step).sum(axis=1)
    return np.asarray(np.cumsum((places - 0.5) / multiplier**2, axis=1))


def _stops(
    game: Game, drift: tuple[FloatArray, FloatArray], prices: Sequence[float], present: bool, seed: int
) -> Stops:
    multiplier, found = game.path.knobs[0].noise_multiplier, np.zeros(len(STOPS), np.int64)
    asked = np.array([price + MARGIN for price in prices[:-1]] + [prices[-1]])
    for batch in range(TRIALS // _AT_ONCE):
        views = game.views(present, _AT_ONCE, ((seed + 1) << 32) + 2 * batch + present)
        over = _ratios(views, drift, multiplier)[:, np.array(STOPS) - 1] > asked
        first = np.argmax(over, axis=1)
        found += np.bincount(first[over.any(axis=1)], minlength=len(STOPS))
    return Stops(found, TRIALS)


def _gain(with_: Stops, without: Stops, prices: Sequence[float], confidence: float) -> float:
    """Returns how much more frequent accusations surely are with the target than their certificates allow for."""
    each = 1 - (1 - confidence) / (len(STOPS) + 1)
    rates = [at_most(int(stops), without.trials, each) for stops in without.rounds]
    allowed = sum(math.exp(min(700.0, price)) * rate for price, rate in zip(prices, rates, strict=True))
    return at_least(int(with_.rounds.sum()), with_.trials, each) - allowed


def _bound(with_: Stops, without: Stops, delta: float) -> float:
    """Returns the ε that accusations refute, whenever they are made."""
    each = 1 - (1 - CONFIDENCE) / 2
    tpr = at_least(int(with_.rounds.sum()), with_.trials, each)
    fpr = at_most(int(without.rounds.sum()), without.trials, each)
    return max(0.0, math.log((tpr - delta) / fpr)) if tpr > delta else 0.0

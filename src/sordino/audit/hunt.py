"""The search for the worst inputs: what could get through the bound, who may vanish, and which rounds tell most."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from sordino.audit.attack import Attack, Path
from sordino.audit.game import Game
from sordino.audit.scene import Scene
from sordino.audit.statistic import separation, widening
from sordino.errors import SordinoError
from sordino.events import Guarantee, LaplaceDpEvent, Unbounded

Change = dict[str, Any]
"""Fields of an attack, and what to try for them."""

_NOTICEABLE = 1.05
"""How much further apart the worlds must be before an attack is preferred to a simpler one."""
_ALL_PATTERNS = 4
"""Rounds up to which every pattern of +1, 0 and −1 is tried."""


def hunt(scene: Scene, guarantee: Guarantee, path: Path, seed: int) -> Attack:
    """Returns the attack that sets the two worlds furthest apart, found one kind of choice at a time.

    Worlds are played with the same randomness, so what an attack changes is seen almost without noise. Where nothing is
    promised there is nothing to search for: an ordinary update is input enough.
    """
    along = torch.eye(scene.width)[0] * path.knobs[0].clip_norm
    best = Attack(along, (1.0,) * scene.rounds, -along)
    bounded = not any(isinstance(charge.event, Unbounded) for charge in path.charges(guarantee))
    inputs = [_loud() if scene.trained else _what(scene, path), _when(scene)]
    for kind in (_who(scene, guarantee), *(inputs if bounded else [])):
        best = _furthest(Game(scene, guarantee, path, best), list(kind), seed)
    return best


def _furthest(game: Game, changes: list[Change], seed: int) -> Attack:
    best = game.attack
    if not changes:
        return best
    trials = game.glance
    apart = _apart(game, trials, seed)
    for change in changes:
        attack = replace(game.attack, **change)
        try:
            found = _apart(Game(game.scene, game.guarantee, game.path, attack), trials, seed)
        except SordinoError:
            continue  # the mechanism refuses such inputs, and releases nothing
        if found > apart * _NOTICEABLE:
            best, apart = attack, found
    return best


def _apart(game: Game, trials: int, seed: int) -> float:
    laplace = isinstance(game.path.charges(game.guarantee)[0].event, LaplaceDpEvent)
    worlds = game.views(False, trials, seed), game.views(True, trials, seed)
    return max(separation(*worlds, laplace), widening(*worlds))


def _who(scene: Scene, guarantee: Guarantee) -> Iterator[Change]:
    """Others that vanish, as many as a round accepts: before they send, before they reveal, or some of each."""
    # one world may have a client less
    lost = int((scene.clients - int(guarantee.adjacency == "add_remove")) * scene.tolerance + 1e-9)
    for silent, stuck in itertools.product(range(lost + 1), repeat=2):
        if 0 < silent + stuck <= min(lost, scene.clients - 1):
            yield {"silent": silent, "stuck": stuck}


def _what(scene: Scene, path: Path) -> Iterator[Change]:
    """Updates that a bound might let through: along each component and all at once, large, huge, and not finite."""
    axes, norm = torch.eye(scene.width), path.knobs[0].clip_norm
    for direction in [*axes, torch.ones(scene.width), -torch.ones(scene.width)]:
        for size in (1.0, 1e3, 1e20):
            yield {"row": direction * size * norm}
    for value in (float("nan"), float("inf")):
        yield {"row": torch.where(axes[-1] > 0, value, axes[0] * 1e3 * norm)}
    yield {"row": axes[0] * norm, "size": 1000 * scene.records}


def _loud() -> Iterator[Change]:
    """Records with gradients so large that clipping them might overflow, or not finite."""
    yield from ({"loudness": value} for value in (1e12, 1e30, float("nan")))


def _when(scene: Scene) -> Iterator[Change]:
    """Sequences of inputs: everything in +1, 0, −1 for a few rounds, else steady, changing and single ones.

    A record that is trained on is there in a round or not: it has no opposite.
    """
    rounds = scene.rounds
    if rounds <= _ALL_PATTERNS:
        steps = (1.0, 0.0) if scene.trained else (1.0, 0.0, -1.0)
        patterns = itertools.product(steps, repeat=rounds) if rounds > 1 else iter(())
    else:
        beats = [(1.0, -1.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0, 0.0, 0.0)]
        patterns = (tuple(beat[t % len(beat)] for t in range(rounds)) for beat in beats)
    for pattern in patterns:
        if any(pattern):
            yield {"pattern": tuple(pattern)}

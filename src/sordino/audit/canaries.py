"""Canaries in a run: clients that send random directions, and records that are in it by a coin."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sordino.account.certificate import Certificate
from sordino.audit import one_run, one_shot
from sordino.audit.counts import CONFIDENCE
from sordino.audit.network import Network
from sordino.audit.people import with_guests, with_records
from sordino.audit.replay import Replayed, replay
from sordino.data.federation import ClientData, Federation
from sordino.errors import RecipeError
from sordino.mechanism import Local, Turn
from sordino.recipe import Recipe
from sordino.stages import Update
from sordino.train.local import ExampleGradients, LocalSteps, SummedSteps
from sordino.train.trainer import Trainer
from sordino.types import BoolArray, FloatArray

_LOUD = 100.0


@dataclass(frozen=True)
class Canaries:
    """What canaries say about ε against the outsider, and what the books of the run that they were in promise."""

    found: dict[str, dict[str, Any]]
    """By what the attacker looks at: `lower_bound`, and how many guesses were right."""
    certificate: Certificate


@dataclass(frozen=True)
class Singing:
    """Local training in which clients from `first` on send their own direction, as long as they are allowed to.

    A direction of zero is an absent canary: everybody's place is kept, so that nothing public depends on who is in.
    """

    inner: Local
    first: int
    directions: Tensor

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        update = self.inner.train(trainer, turn, data)
        canaries = torch.from_numpy(data.clients >= self.first)
        songs = self.directions[torch.from_numpy(data.clients[data.clients >= self.first] - self.first)]
        songs = songs * turn.knob("clip_norm")
        if update.client_clip is None:
            return replace(update, rows=self._rows(update, canaries, songs))
        people = self._people(trainer, turn, data)
        norms = torch.full((len(data.clients),), turn.knob("clip_norm"), dtype=torch.float64)
        norms[canaries] *= songs.any(dim=1)
        total = songs.sum(0, keepdim=True)
        if people is not None and people.norms is not None:
            total = total + people.rows
            norms[~canaries] = people.norms.double()
        return replace(update, rows=total.to(update.rows.dtype), norms=norms)

    def _rows(self, update: Update, canaries: Tensor, songs: Tensor) -> Tensor:
        rows = update.rows.clone()
        # what is not clipped yet will be, and the louder is heard where nothing clips
        loudness = _LOUD if update.example_clip is None else 1.0
        # a canary record that the coin left out of the batch is silent
        sampled = 1.0 if update.example_clip is None else rows[canaries].any(dim=1, keepdim=True)
        rows[canaries] = (songs * loudness * sampled).to(rows.dtype)
        return rows

    def _people(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update | None:
        """Trains everybody but the canaries, where only the sum is handed on."""
        hosts = int(np.searchsorted(data.clients, self.first))
        if hosts == 0:
            return None
        end = int(data.offsets[hosts])
        mine = ClientData(data.clients[:hosts], data.offsets[: hosts + 1], data.x[:end], data.y[:end])
        return self.inner.train(trainer, turn, mine)


def sing(
    recipe: Recipe, federation: Federation, count: int, rounds: int, seed: int, confidence: float = CONFIDENCE
) -> Canaries:
    """Lets canary clients send random directions, half of them by a coin, and guesses from the models who did.

    The bound is that of one run with many coins; beside it stands the published estimate from the cosines alone.

    Raises:
        RecipeError: clients of this mechanism cannot send what they like.
    """
    rng, width = np.random.default_rng(seed), Network.of(recipe, federation).layout.width
    member, songs = rng.random(count) < 0.5, rng.standard_normal((count, width)).astype(np.float32)
    directions = torch.from_numpy(songs / np.linalg.norm(songs, axis=1, keepdims=True))

    def singing(local: Local) -> Local:
        if not isinstance(local, LocalSteps | SummedSteps | ExampleGradients) or getattr(local, "trace", False):
            raise RecipeError("canary clients need a mechanism whose clients send one update: use canary records")
        return Singing(local, federation.population, directions * torch.from_numpy(member)[:, None])

    first = torch.zeros(count, dtype=torch.int64)
    crowd = with_guests(federation, federation.train_x[first], federation.train_y[first])
    played = replay(recipe, crowd, seed, rounds, singing)
    moves = played.moves.double()
    lengths = moves.norm(dim=1, keepdim=True).clamp(min=1e-300)
    found = {}
    for name, view in {"final_model": moves.sum(0), "all_models": (moves / lengths).sum(0)}.items():
        cosines = np.asarray((directions.double() @ view / view.norm().clamp(min=1e-300)).numpy())
        guessed = _guessed(cosines, member, recipe.budget.delta, confidence)
        found[name] = guessed | asdict(one_shot.measure(cosines[member], width, recipe.budget.delta))
    return Canaries(found, played.certificate)


def plant(
    recipe: Recipe,
    federation: Federation,
    count: int,
    rounds: int,
    seed: int,
    alone: bool,
    confidence: float = CONFIDENCE,
) -> Canaries:
    """Returns what mislabelled canary records, each in the run by its own coin, say about ε in one run.

    With `alone` every canary is a person of its own (client unit); else it is given to one of the clients. Scores are
    relative to a second run without any canary, which takes out how hard each is to learn.
    """
    rng = np.random.default_rng(seed)
    member = rng.random(count) < 0.5
    chosen = torch.from_numpy(rng.integers(len(federation.train_y), size=count))
    x, y = federation.train_x[chosen], _mislabelled(federation, federation.train_y[chosen], rng)
    some = torch.from_numpy(member)
    crowd = with_guests(federation, x[some], y[some]) if alone else with_records(federation, x[some], y[some], seed)
    network = Network.of(recipe, federation)
    played = replay(recipe, crowd, seed, rounds)
    # the second run has noise of its own: nobody who attacks a run knows its noise
    with_them, without = (_scores(network, p, x, y) for p in (played, replay(recipe, federation, seed + 1, rounds)))
    found = {
        name: _guessed(with_them[name] - without[name], member, recipe.budget.delta, confidence) for name in with_them
    }
    return Canaries(found, played.certificate)


def _scores(network: Network, played: Replayed, x: Tensor, y: Tensor) -> dict[str, FloatArray]:
    """Returns how well a run remembers records: by the last model's loss, and by all rounds' moves."""
    return {"last_loss": -network.losses(played.last, x, y), "all_gradients": _pulled(network, played, x, y)}


def _guessed(scores: FloatArray, member: BoolArray, delta: float, confidence: float) -> dict[str, Any]:
    bound, guesses = one_run.best_bound(scores, member, delta, confidence)
    return {"lower_bound": bound, **asdict(guesses)}


def _mislabelled(federation: Federation, y: Tensor, rng: np.random.Generator) -> Tensor:
    if not federation.classes:
        return -y
    return (y + torch.from_numpy(rng.integers(1, federation.classes, len(y)))) % federation.classes


def _pulled(network: Network, played: Replayed, x: Tensor, y: Tensor) -> FloatArray:
    """Returns how much the model moved the way that each canary pulls, summed over the rounds (white-box)."""
    score = torch.zeros(len(y), dtype=torch.float64)
    for weights, move in zip(played.weights[:-1], played.moves, strict=True):
        pull = -network.gradients(weights, x, y)
        pull /= pull.norm(dim=1, keepdim=True).clamp(min=1.0)
        score += (pull @ (move / move.norm().clamp(min=1e-30))).double()
    return np.asarray(score.numpy())

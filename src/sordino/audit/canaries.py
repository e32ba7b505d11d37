"""Canaries in a run: clients that send random directions, and records that are in it by a coin."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sordino.account.certificate.certificate import Certificate
from sordino.audit import one_run, one_shot
from sordino.audit.counts import CONFIDENCE
from sordino.audit.network import Network
from sordino.audit.people import with_canary_clients, with_records
from sordino.audit.replay import Replayed, replay
from sordino.data.client_data import Borrowed, ClientData
from sordino.data.federation import Federation
from sordino.errors import RecipeError
from sordino.mechanism import Local
from sordino.recipe import Recipe
from sordino.stages import Update
from sordino.terms import Turn
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
class CanaryDirections:
    """Local training in which clients from `first` on send their own direction, as long as they are allowed to.

    A direction of zero is an absent canary: everybody's place is kept, so that nothing public depends on who is in.
    """

    inner: Local
    first: int
    directions: Tensor

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        canaries = torch.from_numpy(data.clients >= self.first)
        sent = self.directions[torch.from_numpy(data.clients[data.clients >= self.first] - self.first)]
        sent = sent * turn.knobs.clip_norm
        if isinstance(self.inner, ExampleGradients):
            update = self.inner.train(trainer, turn, data)
            # a canary record that the coin left out of the batch is silent
            sent = sent * update.rows[canaries].any(dim=1, keepdim=True)
            return replace(update, rows=torch.cat([update.rows[~canaries], sent]))
        people = self._people(trainer, turn, data)
        if not isinstance(self.inner, SummedSteps):
            # what is not clipped yet will be, and the louder is heard where nothing clips
            rows = [*([] if people is None else [people.rows]), sent * _LOUD]
            return Update(data.clients, torch.cat(rows), data.sizes)
        total, limit = sent.sum(0, keepdim=True), turn.knobs.clip_norm
        norms = torch.full((len(data.clients),), limit, dtype=torch.float64)
        norms[canaries] *= sent.any(dim=1)
        if people is not None and people.norms is not None:
            total = total + people.rows
            norms[~canaries] = people.norms.double()
        return Update(data.clients, total, data.sizes, client_clip=limit, norms=norms)

    def _people(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update | None:
        """Trains everybody but the canaries, who come last."""
        hosts = int(np.searchsorted(data.clients, self.first))
        if hosts == 0:
            return None
        clients, offsets, end = data.clients[:hosts], data.offsets[: hosts + 1], int(data.offsets[hosts])
        if isinstance(data, Borrowed):
            mine: ClientData = Borrowed(clients, offsets, data.records[:end], data.source_x, data.source_y)
        else:
            mine = ClientData(clients, offsets, data.x[:end], data.y[:end])
        return self.inner.train(trainer, turn, mine)


def takes_client_canaries(local: Local) -> bool:
    """Whether a client of such local training can send any direction that it likes."""
    return isinstance(local, LocalSteps | SummedSteps | ExampleGradients) and not getattr(local, "trace", False)


def client_canaries(
    recipe: Recipe,
    federation: Federation,
    count: int,
    rounds: int,
    seed: int,
    alone: bool = True,
    confidence: float = CONFIDENCE,
    model: nn.Module | None = None,
) -> Canaries:
    """Lets canary clients send random directions, half of them by a coin, and guesses from the models who did.

    The bound is that of one run with many coins; beside it stands the published estimate from the cosines alone. With
    `alone` a canary is a client like others (client unit), else one with a single record (record unit).

    Raises:
        RecipeError: clients of this mechanism cannot send what they like.
    """
    rng, width = np.random.default_rng(seed), Network.of(recipe, federation, model).layout.width
    member, sent = rng.random(count) < 0.5, rng.standard_normal((count, width)).astype(np.float32)
    directions = torch.from_numpy(sent / np.linalg.norm(sent, axis=1, keepdims=True))

    def sending(local: Local) -> Local:
        if not takes_client_canaries(local):
            raise RecipeError("canary clients need a mechanism whose clients send one update: use canary records")
        return CanaryDirections(local, federation.population, directions * torch.from_numpy(member)[:, None])

    first = torch.zeros(count, dtype=torch.int64)
    crowd = with_canary_clients(federation, federation.train_x[first], federation.train_y[first], alike=alone)
    played = replay(recipe, crowd, seed, rounds, sending, model)
    moves = _beside_the_start(played)
    lengths = moves.norm(dim=1, keepdim=True).clamp(min=1e-300)
    found = {}
    for name, view in {"final_model": moves.sum(0), "all_models": (moves / lengths).sum(0)}.items():
        cosines = np.asarray((directions.double() @ view / view.norm().clamp(min=1e-300)).numpy())
        guessed = _guessed(cosines, member, recipe.budget.delta, confidence)
        found[name] = guessed | asdict(one_shot.measure(cosines[member], width, recipe.budget.delta))
    return Canaries(found, played.certificate)


def _beside_the_start(played: Replayed) -> Tensor:
    """Returns the moves without what is along the first model, which is public and may drown out everything else."""
    moves, start = played.moves.double(), played.weights[0].double()
    return moves - (moves @ start / start.square().sum().clamp(min=1e-300))[:, None] * start


def record_canaries(
    recipe: Recipe,
    federation: Federation,
    count: int,
    rounds: int,
    seed: int,
    alone: bool = True,
    confidence: float = CONFIDENCE,
    model: nn.Module | None = None,
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
    crowd = with_canary_clients(federation, x[some], y[some], alike=True)
    if not alone:
        crowd = with_records(federation, x[some], y[some], seed)
    network = Network.of(recipe, federation, model)
    played = replay(recipe, crowd, seed, rounds, model=model)
    # the second run has noise of its own: nobody who attacks a run knows its noise
    other = replay(recipe, federation, seed + 1, rounds, model=model)
    with_them, without = (_scores(network, p, x, y) for p in (played, other))
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

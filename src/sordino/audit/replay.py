"""A run's rounds once more, in memory, with other people in it: what canaries and shadow models are played on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from sordino.account.certificate.certificate import Certificate
from sordino.data.federation import Federation
from sordino.errors import BudgetExceeded, ProtocolError
from sordino.mechanism import Local, Turn
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.client_store import ClientStore
from sordino.runs.round import Stage, play
from sordino.runs.runner import books_for, opened
from sordino.runs.setup import Cast, assemble


@dataclass(frozen=True)
class Replayed:
    """The models of a run, from the first to the last."""

    weights: Tensor
    """`[rounds + 1, d]`: what was broadcast in each round, and what came of the last."""
    certificate: Certificate
    """What the books of the replay itself say: they have other people in them than the run's."""

    @property
    def last(self) -> Tensor:
        """The model that the run ended with."""
        return self.weights[-1]

    @property
    def moves(self) -> Tensor:
        """What each round changed, `[rounds, d]`."""
        return self.weights[1:] - self.weights[:-1]


def replay(
    recipe: Recipe,
    federation: Federation,
    seed: int,
    rounds: int | None = None,
    local: Callable[[Local], Local] = lambda local: local,
) -> Replayed:
    """Plays the rounds of a recipe on a federation, with real noise of another seed, and books of its own.

    Args:
        recipe: what the run did.
        federation: who takes part this time.
        seed: of noise, selection and batches.
        rounds: how many (the recipe's by default; a run may have ended earlier).
        local: puts something else in the place of local training.
    """
    cast = assemble(recipe, None, federation)
    mechanism = replace(cast.mechanism, local=local(cast.mechanism.local))
    with TemporaryDirectory() as aside, books_for(recipe, cast, Path(aside) / "ledger.db", "replay", "replay") as books:
        stage = Stage(mechanism, cast.trainer, federation, cast.dropout, cast.server, books)
        path, stopped = _path(stage, cast, Streams(seed), rounds or recipe.run.rounds)
        return Replayed(torch.stack(path), books.certificate(stopped))


def _path(stage: Stage, cast: Cast, randomness: Streams, rounds: int) -> tuple[list[Tensor], str | None]:
    """Plays the rounds and returns the models; a budget that is spent ends them, as it ends a run."""
    turn = Turn(0, cast.weights, {}, randomness, ClientStore())
    knobs, path, public = opened(stage, turn).knobs, [cast.weights], dict[str, float]()
    for round_ in range(1, rounds + 1):
        turn = replace(turn, round_=round_, weights=path[-1], knobs=knobs)
        try:
            played = play(stage, turn, public)
        except BudgetExceeded:
            return path, "budget"
        except ProtocolError:
            path.append(path[-1])  # too few clients were left: nothing was released
            continue
        turn.store.commit()
        knobs, public = played.knobs, cast.public_scores(played.weights)
        path.append(played.weights)
    return path, None

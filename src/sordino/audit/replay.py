"""A run's rounds once more, in memory, with other people in it: what canaries and shadow models are played on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from sordino.account.certificate.certificate import Certificate
from sordino.audit.people import undeclared
from sordino.data.federation import Federation
from sordino.errors import BudgetExceeded, ProtocolError
from sordino.mechanism import Local
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.books import charging_for
from sordino.runs.client_store import ClientStore
from sordino.runs.context import RunContext
from sordino.runs.loop import opened, simulation_of
from sordino.runs.round import Simulation, play
from sordino.runs.setup import assemble


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
    seed: int | str,
    rounds: int | None = None,
    local: Callable[[Local], Local] = lambda local: local,
    model: nn.Module | None = None,
) -> Replayed:
    """Plays the rounds of a recipe on a federation, with real noise of another seed, and books of its own.

    Args:
        recipe: what the run did.
        federation: who takes part this time.
        seed: of noise, selection and batches (a run's own is `RunFolder.facts()["stream"]`).
        rounds: how many (the recipe's by default; a run may have ended earlier).
        local: puts something else in the place of local training.
        model: a model of the user's own, in place of the recipe's.
    """
    context = assemble(undeclared(recipe), model, federation)
    mechanism = replace(context.mechanism, local=local(context.mechanism.local))
    context = replace(context, mechanism=mechanism, randomness=Streams(seed))
    with (
        TemporaryDirectory() as aside,
        charging_for(context, Path(aside) / "ledger.db", "replay", "replay") as charging,
    ):
        simulation = simulation_of(context, charging, ClientStore())
        try:
            path, stopped = _path(simulation, context, rounds or recipe.run.rounds)
        finally:
            simulation.rest()  # the clerk may still be writing down the last round, in a folder that goes away
        return Replayed(torch.stack(path), charging.certificate(stopped))


def _path(simulation: Simulation, context: RunContext, rounds: int) -> tuple[list[Tensor], str | None]:
    """Plays the rounds and returns the models; a budget that is spent ends them, as it ends a run."""
    here = opened(simulation, context)
    path = [here.weights]
    for _ in range(rounds):
        try:
            played = play(simulation, here)
        except BudgetExceeded:
            return path, "budget"
        except ProtocolError:
            here = replace(here, round_=here.round_ + 1)  # too few clients were left: nothing was released
        else:
            simulation.store.commit()
            here = replace(played.here, public=context.public_scores(played.here.weights))
        path.append(here.weights)
    return path, None

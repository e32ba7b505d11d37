"""How far each client's update is from its last one, when everybody takes part and nothing is hidden."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from papers.bench import recipe_of
from sordino.mechanism import Turn
from sordino.random.streams import Streams
from sordino.runs.client_store import ClientStore
from sordino.runs.setup import assemble


def distances(settings: Sequence[str], rounds: int) -> list[tuple[float, float, float]]:
    """Returns mean, least and greatest ‖u_t − u_{t−1}‖ over clients, for t = 2 … rounds."""
    recipe = recipe_of(settings)
    cast = assemble(recipe)
    everyone = np.arange(cast.federation.population)
    weights, before, out = cast.weights, None, []
    for round_ in range(1, rounds + 1):
        turn = Turn(round_, weights, cast.mechanism.adapter.start(), Streams(recipe.run.seed), ClientStore(), everyone)
        update = cast.mechanism.local.train(cast.trainer, turn, cast.federation.gather(everyone)).rows
        if before is not None:
            apart = (update - before).norm(dim=1)
            out.append((float(apart.mean()), float(apart.min()), float(apart.max())))
        weights, before = weights + update.mean(0), update
    return out

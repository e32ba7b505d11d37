"""How far each client's update is from its last one, when everybody takes part and nothing is hidden."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from papers.tasks import rounded
from sordino.recipe import Recipe
from sordino.runs.setup import assemble
from sordino.terms import Terms, Turn


def distances(recipe: Recipe, place: Path, arguments: tuple[int, ...]) -> dict[str, list[list[float | None]]]:
    """Measures mean, least and greatest ‖u_t − u_{t−1}‖ over clients, for t = 2 … rounds, the one argument."""
    (rounds,) = arguments
    context = assemble(recipe)
    everyone, knobs = np.arange(context.federation.population), context.mechanism.adapter.start()
    weights, before = context.weights, None
    out: list[list[float | None]] = []
    for round_ in range(1, rounds + 1):
        turn = Turn(Terms(round_, weights, knobs, everyone), context.randomness)
        update = context.mechanism.local.train(context.trainer, turn, context.federation.gather(everyone)).rows
        if before is not None:
            apart = (update - before).norm(dim=1)
            out.append([rounded(float(x), 6) for x in (apart.mean(), apart.min(), apart.max())])
        weights, before = weights + update.mean(0), update
    return {"by_round": out}

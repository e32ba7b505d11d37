"""How far each client's update is from its last one, when everybody takes part and nothing is hidden."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from papers.experiment_runner import recipe_of
from sordino.runs.setup import assemble
from sordino.terms import Terms, Turn


def distances(settings: Sequence[str], rounds: int) -> list[tuple[float, float, float]]:
    """Returns mean, least and greatest ‖u_t − u_{t−1}‖ over clients, for t = 2 … rounds."""
    recipe = recipe_of(settings)
    context = assemble(recipe)
    everyone, knobs = np.arange(context.federation.population), context.mechanism.adapter.start()
    weights, before, out = context.weights, None, []
    for round_ in range(1, rounds + 1):
        turn = Turn(Terms(round_, weights, knobs, everyone), context.randomness)
        update = context.mechanism.local.train(context.trainer, turn, context.federation.gather(everyone)).rows
        if before is not None:
            apart = (update - before).norm(dim=1)
            out.append((float(apart.mean()), float(apart.min()), float(apart.max())))
        weights, before = weights + update.mean(0), update
    return out

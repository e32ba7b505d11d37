"""What follows a round, in a simulation and across machines alike: measure, tell, and say whether the run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sordino.runs.checkpoint import Checkpoint
from sordino.runs.context import RunContext
from sordino.runs.folder import RunFolder
from sordino.runs.judgement import divergence
from sordino.runs.public import released
from sordino.server.side import Position

Spent = Callable[[], Mapping[str, float | None]]
"""Tells ε so far, which takes time: it is asked only where the model is measured, too."""


def round_over(
    context: RunContext,
    folder: RunFolder,
    here: Position,
    after: Position,
    about: Mapping[str, Any],
    began: float,
    spent: Spent,
) -> tuple[Checkpoint, Mapping[str, Any]]:
    """Returns where the run stands, and the metrics that were written down.

    A round that diverges is spent, and its model is not kept.

    Args:
        context: the run.
        folder: where metrics go.
        here: where the server stood before the round.
        after: where it stands now.
        about: what the round says of itself; `aborted` where nothing was released.
        began: when it began (`time.perf_counter`).
        spent: tells ε so far.
    """
    settings, round_ = context.recipe.run, after.round_
    knobs = after.knobs  # a schedule may end earlier than the recipe
    last = min(settings.rounds, int(knobs.number("last_round"))) if "last_round" in knobs else settings.rounds
    looks = round_ % settings.evaluate_every == 0 or round_ >= last
    loss, accuracy = context.evaluate(after.weights) if looks else (None, None)
    told = {
        "round": round_,
        **about,
        **({"epsilon": spent()} if looks and "aborted" not in about else {}),
        **({"first_knobs": here.knobs.scalars()} if here.round_ == 0 else {}),
        "loss": loss,
        "accuracy": accuracy,
        "seconds_total": time.perf_counter() - began,
    }
    folder.log(told, released(told, context.mechanism, context.federation.test_public))
    why = divergence(context, after.weights, loss, round_)
    if why is not None:
        return Checkpoint(replace(here, round_=round_), "diverged", why), told
    reached = settings.target is not None and accuracy is not None and accuracy >= settings.target
    return Checkpoint(after, "target" if reached else "rounds" if round_ >= last else None), told

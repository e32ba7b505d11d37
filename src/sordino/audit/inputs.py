"""From what the adversary chose to bounded contributions, by the mechanism's own training and bounder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sordino.audit.scene import Scene, records_of
from sordino.client_state import ClientState
from sordino.stages import Bounded, Trace, Update
from sordino.terms import Turn
from sordino.train.local import LocalSteps, SummedSteps
from sordino.train.optimizers import optimizer
from sordino.types import BoolArray, IntArray


def contributions(
    scene: Scene,
    turn: Turn,
    rows: Tensor,
    loud: BoolArray,
    sizes: IntArray | None = None,
    loudness: float = 1.0,
    state: ClientState | None = None,
) -> Bounded:
    """Returns the bounded contributions of a turn's cohort.

    Args:
        scene: the mechanism on its stage.
        turn: what is public; its cohort is who contributes.
        rows: raw updates, where the adversary can choose them (client unit).
        loud: who holds the extra record, where contributions are computed from records.
        sizes: how many records everybody says to have.
        loudness: input of the extra record.
        state: what everybody remembers.
    """
    mechanism = scene.mechanism
    if scene.trained:
        update = mechanism.local.train(scene.trainer, turn, records_of(turn.cohort, loud, loudness))
    else:
        sizes = np.full(len(turn.cohort), scene.records) if sizes is None else sizes
        update = Update(turn.cohort, rows, sizes, _trace(scene, turn, rows))
    return mechanism.bounder.bound(replace(update, state=state), turn)


def presummed(scene: Scene, turn: Turn, roles: IntArray, loud: bool, loudness: float) -> Bounded:
    """Returns the one row of a sum that training clips client by client; the target has its extra record if `loud`."""
    nothing = torch.zeros(len(roles), scene.width)
    return contributions(scene, turn.but(cohort=roles), nothing, (roles == 0) & loud, loudness=loudness)


def sums_in_training(scene: Scene) -> bool:
    """Returns whether training hands on one sum over all clients in place of a row each."""
    return isinstance(scene.mechanism.local, SummedSteps)


def _trace(scene: Scene, turn: Turn, rows: Tensor) -> Trace | None:
    """Returns the last steps of a training that stood still at its result, where a mechanism looks at them."""
    local = scene.mechanism.local
    if not (isinstance(local, LocalSteps) and local.trace):
        return None
    still = torch.zeros_like(rows)
    return Trace(turn.weights + rows, still, still, optimizer(scene.trainer.settings).init(rows), steps=2)

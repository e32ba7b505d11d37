"""What a client computes in a round: a few steps of local training, or one sum of clipped per-example gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sordino.data.client_data import ClientData
from sordino.stages import Update
from sordino.terms import Turn
from sordino.train.trainer import Trainer


@dataclass(frozen=True)
class LocalSteps:
    """Local training from the broadcast weights: u = w_K − w_0."""

    trace: bool = False

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        return trainer.train(turn.weights, data, turn.randomness, turn.round_, self.trace)


@dataclass(frozen=True)
class SummedSteps:
    """Local training whose updates are clipped to the knob `clip_norm` and summed without being kept.

    For mechanisms that only ever use the sum (central trust): where clients take a single step, their updates are never
    in memory one by one.
    """

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        limit = turn.knobs.clip_norm
        total, norms = trainer.clipped_sum(turn.weights, data, limit, turn.randomness, turn.round_)
        if len(data.clients) == 1:
            total = total.to(turn.weights.dtype)  # its own vector, and not a sum that others' rounding is in
        return Update(data.clients, total[None], data.sizes, client_clip=limit, norms=norms)


@dataclass(frozen=True)
class ExampleGradients:
    """The negative sum of per-example gradients, each clipped to the knob `clip_norm`, over a secret Poisson batch.

    **Formal guarantees**: one record more or less changes a client's row by at most clip_norm; a record takes part with
    probability `sampling_rate`, drawn by the client and told to nobody, which amplifies against every observer.
    """

    sampling_rate: float = 1.0
    tally: str | None = None
    """Name of a side column in which a client counts ½ for each record that was not clipped and −½ for each other."""

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        rate = self.sampling_rate if self.sampling_rate < 1 else None
        rows, taken, clipped = trainer.example_sum(
            turn.weights, data, turn.knobs.clip_norm, rate, turn.randomness, turn.round_, per_client=True
        )
        side = {} if self.tally is None else {self.tally: torch.from_numpy(taken / 2 - clipped)[:, None]}
        return Update(data.clients, -rows, data.sizes, example_clip=turn.knobs.clip_norm, side=side)

"""Local DP-SGD: what an A-DPFL participant computes in a round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from sordino.data.client_data import ClientData
from sordino.stages import Update
from sordino.terms import Turn
from sordino.train.private import Order
from sordino.train.trainer import Trainer


@dataclass(frozen=True)
class PrivateSteps:
    """`steps` noisy local steps, and in every `count_every`-th round a count of right answers beside them.

    **Formal guarantees** (order `clip_then_noise`): in each step every record enters the batch by its own coin, its
    gradient is clipped to the knob `clip_norm`, and N(0, (noise_multiplier · clip_norm)²) is added to the sum before it
    is divided by the public `batch`. Nothing else of the data reaches the weights. The count is of the client's own
    records that the broadcast model is right about; it leaves the client with noise only (`perturb/steps.py`).
    **Edge cases**: order `noise_then_clip` is the printed one, on shuffled batches (`sampling_rate=None`); it bounds
    nothing, and does not say that it does.
    """

    sampling_rate: float | None
    steps: int
    batch: float | None
    order: Order = "clip_then_noise"
    count_every: int | None = None

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        clip, noise = turn.knobs.clip_norm, turn.knobs.noise_multiplier
        update = trainer.private_steps(
            turn.weights,
            data,
            clip,
            noise,
            self.sampling_rate,
            self.steps,
            turn.randomness,
            turn.round_,
            self.order,
            self.batch,
        )
        if self.order == "clip_then_noise":
            update = replace(update, example_clip=clip, noise_multiplier=noise)
        if self.count_every is None or turn.round_ % self.count_every:
            return update
        return replace(update, side={"right": right_answers(trainer, turn.weights, data)})


def right_answers(trainer: Trainer, weights: Tensor, data: ClientData) -> Tensor:
    """Returns how many of its own records each client finds the model right about, `[clients, 1]`."""
    cuts = pairwise(data.offsets.tolist())
    counts = [trainer.right(weights, data.x[start:end], data.y[start:end]) for start, end in cuts]
    return torch.tensor(counts, dtype=torch.float64).reshape(-1, 1)

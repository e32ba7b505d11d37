"""Sums of clipped contributions that are never in memory one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.random.streams import Randomness
from sordino.train.batches import EpochBatches, PoissonBatches, rectangles
from sordino.train.dropout import dropping
from sordino.train.gradients import Gradients
from sordino.train.private import example_sums
from sordino.train.shard import Shard
from sordino.types import IntArray


@dataclass(frozen=True)
class StepSum:
    """The sum over clients of the clipped update of one SGD step, u_k = −η·g_k; clients of a group come together.

    **Formal guarantees**: one client moves the sum, as it was computed, by at most clip_norm (`train/gradients.py`);
    one that is not finite adds nothing.
    """

    gradients: Gradients
    learning_rate: float
    batch_size: int | None

    def __call__(
        self,
        shard: Shard,
        groups: IntArray | None,
        w0: Tensor,
        clip_norm: float,
        randomness: Randomness,
        round_: int,
    ) -> tuple[Tensor, Tensor]:
        """Returns the sum `[d]`, and the norms of the updates before clipping `[n]`.

        Args:
            shard: whose updates.
            groups: the number of each client's group, where sums of groups may be in single precision (`groups.py`).
            w0: the weights from which clients step.
            clip_norm: L2 bound on each update.
            randomness: where the order of records comes from.
            round_: the round.
        """
        batches = EpochBatches(shard, self.batch_size, randomness, round_)
        total, norms = torch.zeros_like(w0, dtype=torch.float64), w0.new_zeros(len(shard.clients))
        for batch in batches.step(0, len(shard.clients)):
            batch, together = (batch, None) if groups is None else batch.by_group(groups[batch.rows])
            records = batch.take(shard.x), batch.take(shard.y), batch.means(w0.dtype)
            bound = clip_norm / self.learning_rate
            with dropping(randomness, round_, 0):
                part, lengths = self.gradients.clipped_clients(w0[None], *records, bound, together)
            total.sub_(part, alpha=self.learning_rate)
            norms[torch.from_numpy(batch.rows)] = lengths * self.learning_rate
        return total, norms


@dataclass(frozen=True)
class ExampleSum:
    """The sums of clipped per-example gradients at the same weights for everyone (record unit).

    **Formal guarantees**: one record more or less changes a client's sum by at most clip_norm, and nobody else's.
    """

    gradients: Gradients

    def __call__(
        self,
        shard: Shard,
        w0: Tensor,
        clip_norm: float,
        sampling_rate: float | None,
        randomness: Randomness,
        round_: int,
        per_client: bool,
    ) -> tuple[Tensor, IntArray, IntArray]:
        """Returns each client's sum `[n, d]` (or the sum of them, `[1, d]`), how many records it took and clipped."""
        if sampling_rate is None:
            places = np.arange(len(shard.sizes))
            batches, counts = rectangles(shard.records, places, shard.starts, shard.sizes), shard.sizes
        else:
            batches, counts = PoissonBatches(shard, sampling_rate, randomness, round_).step(0)
        with dropping(randomness, round_, 0):
            sums, clipped = example_sums(self.gradients, w0[None], shard, batches, clip_norm)
        total = sums if per_client else sums.sum(0, keepdim=True, dtype=torch.float64)
        return total, counts, clipped.numpy()

"""Sums of clipped contributions that are never in memory one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.random.streams import Randomness
from sordino.train.batches import EpochBatches, PoissonBatches, Rectangle, rectangles
from sordino.train.descent import Descent
from sordino.train.dropout import dropping
from sordino.train.gradients import SINGLE, Gradients, summed_clients
from sordino.train.private import counted, example_sums, numbers_of
from sordino.train.shard import Shard
from sordino.types import BoolArray, IntArray


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
class DescentSum:
    """The sum over clients of the clipped updates of any number of local steps: rows of a stretch, and no more, exist.

    **Formal guarantees**: those of `StepSum`; in double precision, in whatever order stretches are added.
    """

    descent: Descent

    def __call__(
        self, shard: Shard, w0: Tensor, counts: IntArray, clip_norm: float, randomness: Randomness, round_: int
    ) -> tuple[Tensor, Tensor]:
        """Returns the sum `[d]`, and the norms of the updates before clipping `[n]`."""
        rows, _ = self.descent(shard, w0, counts, randomness, round_, False)
        return summed_clients(rows, clip_norm)


@dataclass(frozen=True)
class ExampleSum:
    """The sums of clipped per-example gradients at the same weights for everyone (record unit).

    **Formal guarantees**: one record more or less changes a client's sum, as it was computed, by at most clip_norm, and
    nobody else's; and so it changes the sum over all, which is in double precision. There records lie side by side,
    whosever they are: no client is padded, and records that lie side by side in memory are not copied. A record moves
    those after it to other places, and over cuts; sums of double precision are bounded in whatever order they are made.
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
            records, starts, counts = shard.records, shard.starts, shard.sizes
        else:
            records, starts, counts = PoissonBatches(shard, sampling_rate, randomness, round_).drawn(0)
        with dropping(randomness, round_, 0):
            if not per_client and counted(self.gradients):
                total, limited = self._together(shard, records, w0, clip_norm)
                before = np.concatenate([[0], np.cumsum(limited)])
                return total, counts, before[starts + counts] - before[starts]
            batches = rectangles(records, np.arange(len(counts)), starts, counts)
            sums, clipped = example_sums(self.gradients, w0[None], shard, batches, clip_norm)
        total = sums if per_client else sums.sum(0, keepdim=True, dtype=torch.float64)
        return total, counts, clipped.numpy()

    def _together(self, shard: Shard, records: IntArray, w0: Tensor, clip_norm: float) -> tuple[Tensor, BoolArray]:
        """Returns the sum over all these records `[1, d]`, and which of them were clipped or left out."""
        total, limited = torch.zeros(1, len(w0), dtype=torch.float64), np.zeros(len(records), bool)
        if not len(records):
            return total, limited
        whole = Rectangle(np.zeros(1, np.int64), records[None], np.array([len(records)]))
        done = 0
        for part in whole.narrower(numbers_of(self.gradients, shard), SINGLE):
            taken = part.take(shard.x), part.take(shard.y), part.mask(w0.dtype)
            sums, norms = self.gradients.clipped_examples(w0[None], *taken, clip_norm)
            total += sums
            limited[done : done + norms.shape[1]] = ~(norms[0] <= clip_norm).numpy()
            done += norms.shape[1]
        return total, limited

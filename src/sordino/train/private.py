"""DP-SGD inside each client: noisy local steps, after which the client's weights are private by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sordino.random.on_grid import noisy_sums
from sordino.random.streams import Randomness
from sordino.train.batches import EpochBatches, PoissonBatches, Rectangle
from sordino.train.descent import AfterStep, mean_gradients
from sordino.train.dropout import dropping
from sordino.train.gradients import SINGLE, Gradients, clip_factors
from sordino.train.optimizers import Optimizer
from sordino.train.shard import Shard

Order = Literal["clip_then_noise", "noise_then_clip"]


@dataclass(frozen=True)
class Privacy:
    """How each local step is made private.

    Attributes:
        clip_norm: L2 bound on each example's gradient (on the whole noisy gradient in `noise_then_clip`).
        noise_multiplier: noise standard deviation over `clip_norm`.
        sampling_rate: probability that a record enters a step's batch; None takes shuffled batches of the settings'
            size instead, which amplify nothing.
        steps: number of local steps.
        order: `clip_then_noise` is DP-SGD. `noise_then_clip` is a_dpfl as printed: noise on the batch's gradient, and
            then a clip, which bounds nothing that the noise could hide.
        batch: public divisor of the noisy sum; by default sampling_rate · records of the client (or the
            length of its batch), which is public only under `replace`.
    """

    clip_norm: float
    noise_multiplier: float
    sampling_rate: float | None
    steps: int
    order: Order = "clip_then_noise"
    batch: float | None = None


@dataclass(frozen=True)
class PrivateDescent:
    """Noisy local steps by the same rule for everyone.

    **Formal guarantees** (`clip_then_noise`): one record moves a step's sum by at most clip_norm, against Gaussian
    noise of noise_multiplier · clip_norm on every coordinate, drawn afresh for (round, client, step). The sum is
    rounded to a grid and noised in integers (`random/on_grid.py`); whatever the optimiser does with it afterwards, in
    single precision, is post-processing, and so is the regulariser's λ·w, which is added to the noisy mean. That a
    record also changes how the others' sum is rounded is within clip_norm (`train/gradients.py`).
    **Edge cases**: an empty Poisson batch still takes its step, on noise alone. Gradients that are not finite are left
    out of the sum.
    **Reference**: Abadi et al. (2016), "Deep Learning with Differential Privacy", Algorithm 1.
    """

    gradients: Gradients
    optimizer: Optimizer
    batch_size: int | None
    after_step: AfterStep | None
    weight_decay: float = 0.0

    def __call__(self, shard: Shard, w0: Tensor, privacy: Privacy, randomness: Randomness, round_: int) -> Tensor:
        """Returns u = w_K − w_0 of each client."""
        w = w0.detach().repeat(len(shard.clients), 1)
        state = self.optimizer.init(w)
        draw = self._drawer(shard, privacy.sampling_rate, randomness, round_)
        for step in range(privacy.steps):
            with dropping(randomness, round_, step):
                found = self._noisy(w, shard, draw(step), privacy, randomness, (f"local noise/{step}", round_))
            found.add_(w, alpha=self.weight_decay)
            direction, state = self.optimizer.direction(state, found)
            w.sub_(direction, alpha=self.optimizer.learning_rate)
            if self.after_step is not None:
                w.copy_(self.after_step(w, w0))
        return w.sub_(w0)

    def _drawer(
        self, shard: Shard, sampling_rate: float | None, randomness: Randomness, round_: int
    ) -> Callable[[int], list[Rectangle]]:
        """Returns the function that draws the batches of a step."""
        if sampling_rate is None:
            epochs = EpochBatches(shard, self.batch_size, randomness, round_)
            return lambda step: list(epochs.step(step, len(shard.clients)))
        poisson = PoissonBatches(shard, sampling_rate, randomness, round_)
        return lambda step: list(poisson.step(step)[0])

    def _noisy(
        self,
        w: Tensor,
        shard: Shard,
        batches: list[Rectangle],
        privacy: Privacy,
        randomness: Randomness,
        stream: tuple[str, int],
    ) -> Tensor:
        """Returns the noisy mean gradients of one step; `stream` is the purpose and the round of the noise."""
        lengths = torch.zeros(w.shape[0], 1, dtype=w.dtype)
        for batch in batches:
            lengths[torch.from_numpy(batch.rows), 0] = torch.from_numpy(batch.lengths).to(w.dtype)
        divisor = lengths
        if privacy.batch is not None:
            divisor = torch.full_like(lengths, privacy.batch)
        elif privacy.sampling_rate is not None:
            divisor = torch.from_numpy(shard.sizes * privacy.sampling_rate).to(w.dtype)[:, None]
        if privacy.order == "noise_then_clip":
            sums = mean_gradients(self.gradients, w, shard, batches).mul_(lengths)
            noise = randomness.normals(*stream, shard.clients, w.shape[1])
            noisy = noise.mul_(privacy.noise_multiplier * privacy.clip_norm).add_(sums).div_(divisor)
            return noisy.mul_(clip_factors(torch.linalg.vector_norm(noisy, dim=1), privacy.clip_norm)[:, None])
        sums, _ = example_sums(self.gradients, w, shard, batches, privacy.clip_norm)
        keys = randomness.keys(*stream, shard.clients)
        return noisy_sums(sums, privacy.clip_norm, privacy.noise_multiplier, keys, dtype=w.dtype).div_(divisor)


def example_sums(
    gradients: Gradients, w: Tensor, shard: Shard, batches: Iterable[Rectangle], clip_norm: float
) -> tuple[Tensor, Tensor]:
    """Returns each client's sum of clipped per-example gradients `[n, d]`, under its own weights or `w [1, d]`.

    Beside it, how many of its examples had to be clipped, or were left out because they were not finite `[n]`.

    **Formal guarantees**: one record moves the sum, as it was computed, by at most clip_norm. In double precision where
    a client has more than 32 records; those of fewer are exact in either.
    """
    found, numbers = [], numbers_of(gradients, shard)
    clipped = torch.zeros(len(shard.clients), dtype=torch.int64)
    for batch in (part for whole in batches for part in whole.narrower(numbers, SINGLE)):
        rows, mask = torch.from_numpy(batch.rows), batch.mask(w.dtype)
        own = w if w.shape[0] == 1 else w[rows]
        sums, norms = gradients.clipped_examples(own, batch.take(shard.x), batch.take(shard.y), mask, clip_norm)
        found.append((rows, sums))
        clipped[rows] += (~(norms <= clip_norm) & (mask > 0)).sum(1)
    double = any(sums.dtype == torch.float64 for _, sums in found)
    out = w.new_zeros(len(shard.clients), w.shape[1], dtype=torch.float64 if double else w.dtype)
    for rows, sums in found:
        out[rows] += sums.to(out.dtype)
    return out, clipped


def counted(gradients: Gradients) -> bool:
    """Returns whether an engine says how many numbers of a record it works on at once."""
    return hasattr(getattr(gradients, "inner", gradients), "footprint")


def numbers_of(gradients: Gradients, shard: Shard) -> int:
    """Returns how many numbers of a record are worked on at once, or how many it has where an engine does not say."""
    shape = tuple(shard.x.shape[1:])
    inner: Any = getattr(gradients, "inner", gradients)
    return int(inner.footprint(shape, shard.x.dtype)) if counted(gradients) else math.prod(shape)

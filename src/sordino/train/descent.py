"""Local steps of a chunk of clients: all from the same weights, each on its own batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.random.streams import Randomness
from sordino.train.batches import EpochBatches, Rectangle
from sordino.train.dropout import dropping
from sordino.train.gradients import Gradients
from sordino.train.optimizers import Optimizer, OptimizerState
from sordino.train.shard import Shard
from sordino.types import IntArray

AfterStep = Callable[[Tensor, Tensor], Tensor]
"""`(rows w, w0) → rows`: a projection that a mechanism asks for after every local step."""


@dataclass
class LastSteps:
    """The last steps of each client, as `stages.Trace` keeps them."""

    before: Tensor
    gradient: Tensor
    last_gradient: Tensor
    state: dict[str, Tensor]

    @classmethod
    def empty(cls, w: Tensor, state: OptimizerState) -> LastSteps:
        """Returns the memory of clients that have not stepped: zero gradients."""
        blank = {name: torch.zeros_like(value) for name, value in state.items()}
        return cls(w.clone(), torch.zeros_like(w), torch.zeros_like(w), blank)

    def note(self, w: Tensor, gradients: Tensor, state: OptimizerState) -> None:
        """Remembers a step that the first clients are about to take."""
        count = len(w)
        self.gradient[:count] = self.last_gradient[:count]
        self.last_gradient[:count] = gradients
        self.before[:count] = w
        for name, value in state.items():
            self.state[name][:count] = value


@dataclass(frozen=True)
class Descent:
    """Local steps by the same rule for everyone."""

    gradients: Gradients
    optimizer: Optimizer
    batch_size: int | None
    after_step: AfterStep | None
    weight_decay: float = 0.0

    def __call__(
        self, shard: Shard, w0: Tensor, counts: IntArray, randomness: Randomness, round_: int, remember: bool
    ) -> tuple[Tensor, LastSteps | None]:
        """Returns u = w_K − w_0 of each client after its `counts[k]` steps, and what the last ones left behind.

        **Edge cases**: counts descend, as the shard's clients do: those who are done make room at the end.
        """
        batches = EpochBatches(shard, self.batch_size, randomness, round_)
        w = w0.detach().repeat(len(counts), 1)
        state = self.optimizer.init(w)
        memory = LastSteps.empty(w, state) if remember else None
        for step in range(int(counts.max(initial=0))):
            count = int((counts > step).sum())
            active = w[:count]
            state = {name: value[:count] for name, value in state.items()}
            with dropping(randomness, round_, step):
                found = mean_gradients(self.gradients, active, shard, batches.step(step, count))
            if self.weight_decay:
                found = torch.add(found, active, alpha=self.weight_decay)
            if memory is not None:
                memory.note(active, found, state)
            direction, state = self.optimizer.direction(state, found)
            active.sub_(direction, alpha=self.optimizer.learning_rate)
            if self.after_step is not None:
                active.copy_(self.after_step(active, w0))
        return w.sub_(w0), memory


def mean_gradients(gradients: Gradients, w: Tensor, shard: Shard, batches: Iterable[Rectangle]) -> Tensor:
    """Returns the gradients of the clients' mean losses over their batches, `[n, d]`."""
    out = None
    for batch in batches:
        records = batch.take(shard.x), batch.take(shard.y), batch.means(w.dtype)
        if len(batch.rows) == w.shape[0] and (batch.rows[:-1] < batch.rows[1:]).all():
            return gradients.gradients(w, *records)
        rows = torch.from_numpy(batch.rows)
        found = gradients.gradients(w[rows], *records)
        out = torch.zeros_like(w) if out is None else out
        out[rows] = found
    return torch.zeros_like(w) if out is None else out

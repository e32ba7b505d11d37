"""Local steps whose noise is scaled by the gradients of the batch itself: what three of the rivals have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sordino.account.accountants.accountant import price
from sordino.aggregate.plain import PlainSum
from sordino.bound.vouched import AsTrained
from sordino.data.client_data import ClientData
from sordino.errors import RecipeError
from sordino.mechanism import Adapter, Claim, Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.local_dp_sgd import batches
from sordino.mechanisms.spec import Options
from sordino.perturb.steps import StepNoise, step_event
from sordino.stages import Update
from sordino.terms import Knobs, Turn
from sordino.train.batches import PoissonBatches, Rectangle
from sordino.train.shard import Shard
from sordino.train.trainer import Trainer

CLAIM = "the moments of Poisson-sampled Gaussians, with the measured sensitivity taken for a public constant"


class BatchRule(Protocol):
    """What becomes of the gradients of a batch."""

    def noisy(self, examples: Tensor, knobs: Knobs, noise: Tensor) -> Tensor:
        """Returns the noisy sum `[d]` of gradients `[b, d]`, given as many N(0, 1) draws."""


@dataclass(frozen=True)
class BatchSteps:
    """Local steps on Poisson batches, in each of which a rule clips, measures and noises the examples' gradients.

    **Formal guarantees**: none: the noise is in proportion to private gradients.
    **Edge cases**: an empty batch has no gradient to measure, so its step has no noise either.
    """

    rule: BatchRule
    sampling_rate: float
    steps: int
    batch: float
    """Public expected length of a batch, by which noisy sums are divided."""

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        rows = [self._client(trainer, turn, shard) for shard in each_client(data)]
        return Update(data.clients, torch.cat([turn.weights.expand(0, -1), *rows]), data.sizes)

    def _client(self, trainer: Trainer, turn: Turn, shard: Shard) -> Tensor:
        w = turn.weights.detach().clone()[None]
        state = trainer.optimizer.init(w)
        drawn = PoissonBatches(shard, self.sampling_rate, turn.randomness, turn.round_)
        for step in range(self.steps):
            noise = turn.randomness.normals(f"local noise/{step}", turn.round_, shard.clients, w.shape[1])[0]
            examples = example_gradients(trainer, w, shard, drawn.step(step)[0])
            found = self.rule.noisy(examples, turn.knobs, noise).div(self.batch)[None]
            delta, state = trainer.optimizer.step(state, found)
            w.add_(delta)
        return w.sub_(turn.weights)


def each_client(data: ClientData) -> Iterator[Shard]:
    """Yields the clients one by one."""
    return (Shard.of(data, slice(place, place + 1)) for place in range(len(data.clients)))


def example_gradients(trainer: Trainer, w: Tensor, shard: Shard, drawn: Iterator[Rectangle]) -> Tensor:
    """Returns the gradient of each example of one client's batch, `[b, d]`: every example as if it were a client."""
    found = [w[:0]]
    for batch in drawn:
        length = int(batch.lengths[0])
        x, y = (batch.take(records)[0, :length, None] for records in (shard.x, shard.y))
        found.append(trainer.gradients.gradients(w, x, y, torch.ones(length, 1, dtype=w.dtype)))
    return torch.cat(found)


def clipped(examples: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Returns the gradients, each scaled down to at most `bound`, and the norms that they have then."""
    norms = torch.linalg.vector_norm(examples, dim=1)
    kept = norms.clamp(max=bound)
    return examples * (kept / norms.clamp(min=1e-30))[:, None], kept


def largest(norms: Tensor) -> float:
    """Returns the largest norm; 0 of none."""
    return float(norms.max()) if len(norms) else 0.0


def measured(options: Options, facts: PublicFacts, rule: BatchRule, why: str, adapter: Adapter) -> Mechanism:
    """Returns local DP-SGD whose noise follows a rule that measures private gradients: certified for nothing."""
    if options.mode != "faithful":
        raise RecipeError(f"mechanism {options.name} is there as printed alone: set mechanism.mode to 'faithful'")
    rate, steps = batches(None, facts)
    batch = rate * facts.mean_records
    levels = [adapter.planned(m).noise_multiplier for m in range(1, facts.rounds + 1)]

    def claimed(participations: int, delta: float) -> float:
        dearest = np.sort(levels)[:participations]
        return price([step_event(float(z), rate, steps) for z in dearest]).epsilon(delta)

    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="record",
        trust="local",
        selector=facts.selector,
        local=BatchSteps(rule, rate, steps, batch),
        bounder=AsTrained(),
        perturber=StepNoise(rate, steps, facts.train.learning_rate / batch, unproved=why),
        aggregator=PlainSum(None),
        adapter=adapter,
        claim=Claim(CLAIM, claimed),
    )


def constant_noise(options: Options, facts: PublicFacts) -> float:
    """Returns the noise multiplier for which the budget is claimed, the same in every round."""
    rate, steps = batches(None, facts)
    return facts.calibrate(options, StepNoise(rate, steps, 0.0))

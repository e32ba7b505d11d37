"""Local training of a cohort: all clients at once, one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from sordino.data.client_data import ClientData
from sordino.errors import ModelError
from sordino.layout import Layout
from sordino.models.losses import Loss
from sordino.random.streams import Randomness
from sordino.stages import Trace, Update
from sordino.train import engine as engines
from sordino.train.alike import FULL
from sordino.train.batches import CACHED
from sordino.train.descent import AfterStep, Descent, LastSteps
from sordino.train.device import device_of
from sordino.train.evaluation import Evaluation, ModelOutputs, right
from sordino.train.gradients import Gradients, held
from sordino.train.groups import grouped
from sordino.train.optimizers import optimizer
from sordino.train.private import Order, Privacy, PrivateDescent
from sordino.train.settings import LocalTraining
from sordino.train.shard import Shard
from sordino.train.sums import DescentSum, ExampleSum, StepSum
from sordino.train.worker_pool import Parallelism, WorkerPool
from sordino.types import BoolArray, IntArray

_FEWEST_TESTED, _MOST_TESTED = 128, 1024
"""Records that a model is tested on at once: as many as stay in the caches, of networks with wide layers fewer."""

_PARALLELISM: dict[str, Parallelism] = {"auto": "when it pays", "processes": "always"}


class Trainer:
    """Trains the clients of a cohort from the same weights.

    Args:
        model: any module that `torch.func` can call; its own weights are not used and never changed.
        loss: losses of single examples; a client's objective on a batch is their mean.
        settings: how every client trains.
        engine: `auto`, `batched` (in this process alone), `loop` (client by client) or `processes` (with the other
            processes from the start); the attribute `choice` says how gradients are computed, and why.
        chunk: clients computed at once; by default as many as fit the working memory.
        after_step: a projection after every local step.
        record: a made-up record, from which models of any kind are looked at (`engine.choose`).
        device: where gradients are computed (`device.py`): `auto`, `cpu`, `cuda` or `mps`.

    **Formal guarantees**: the same seed and settings give the same bits, whatever else the machine does. Another chunk
    changes nothing but the last digits.
    **Edge cases**: an empty cohort gives no rows, and zero sums. A client without records has nothing to add: its
    update is zero, or the noise of its steps alone. Weights of the wrong length raise one clear error.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        settings: LocalTraining,
        engine: str = "auto",
        chunk: int | None = None,
        after_step: AfterStep | None = None,
        record: Tensor | None = None,
        device: str = "cpu",
    ) -> None:
        self.settings, self.loss, self.chunk, self.width = settings, loss, chunk, Layout.of(model).width
        self.device = device_of(device)
        self.choice = engines.choose(model, loss, engine, record, self.device)
        # other processes share memory with this one, and no device
        self._pool = WorkerPool(_PARALLELISM.get(engine, "alone") if self.device.type == "cpu" else "alone")
        self._gradients = self.choice.gradients
        self.optimizer = optimizer(settings)
        rule = (self._gradients, self.optimizer, settings.batch_size, after_step, settings.weight_decay)
        self._descent, self._private, self._examples = Descent(*rule), PrivateDescent(*rule), ExampleSum(rule[0])
        self._updates = DescentSum(self._descent)
        self._evaluation, self._outputs = Evaluation(self._gradients, loss), ModelOutputs(self._gradients)
        single = settings.optimizer == "sgd" and after_step is None and not settings.weight_decay
        self._step = StepSum(rule[0], settings.learning_rate, settings.batch_size) if single else None

    @property
    def gradients(self) -> Gradients:
        """The engine's gradients, for a mechanism that brings local steps of its own."""
        return self._gradients

    @contextmanager
    def meanwhile(self, begin: Callable[[], object]) -> Iterator[None]:
        """Calls this, inside the block, whenever other processes have been asked for their share of the work."""
        self._pool.meanwhile = begin
        try:
            yield
        finally:
            self._pool.meanwhile = None

    def train(self, w0: Tensor, data: ClientData, randomness: Randomness, round_: int, trace: bool = False) -> Update:
        """Returns u = w_K − w_0 of every client after its own K local steps, and a trace of the last two if asked."""
        counts = self._counts(data)
        shards = self._shards(w0, data, counts)
        jobs = [(shard, w0, counts[shard.places], randomness, round_, trace) for shard in shards]
        found = self._pool.each(self._descent, jobs)
        rows = _scattered(shards, [part for part, _ in found], w0.expand(0, -1))
        memories = [memory for _, memory in found]
        return Update(data.clients, rows, data.sizes, _trace(shards, memories, counts, w0) if trace else None)

    def clipped_sum(
        self, w0: Tensor, data: ClientData, clip_norm: float, randomness: Randomness, round_: int
    ) -> tuple[Tensor, Tensor]:
        """Returns Σ_k clip(u_k) `[d]` in double precision, and the norms ‖u_k‖ before clipping `[n]`.

        Of clients that take a single step of plain SGD no update is ever in memory; the others are summed by stretches.

        **Formal guarantees**: a client moves the sum, as it was computed, by at most clip_norm. The two ways round
        norms up differently, so nobody's way may depend on others: it follows from the client's own records.
        """
        counts = self._counts(data)
        single = (counts == 1) & (self._step is not None)
        total, norms = torch.zeros_like(w0, dtype=torch.float64), w0.new_empty(len(counts))
        if not single.all():
            total += self._many_steps(w0, data, ~single, clip_norm, (randomness, round_), norms)
        if self._step is not None and single.any():
            total += self._single_steps(self._step, w0, data, single, clip_norm, (randomness, round_), norms)
        return total, norms

    def _many_steps(
        self,
        w0: Tensor,
        data: ClientData,
        chosen: BoolArray,
        clip_norm: float,
        draws: tuple[Randomness, int],
        norms: Tensor,
    ) -> Tensor:
        """Returns the sum of the clipped updates of the chosen clients, and notes their norms."""
        own, places = data.some(chosen), np.flatnonzero(chosen)
        held(len(places), len(places))
        counts = self._counts(own)
        shards = self._shards(w0, own, counts)
        jobs = [(shard, w0, counts[shard.places], clip_norm, *draws) for shard in shards]
        parts, lengths = zip(*self._pool.each(self._updates, jobs), strict=True)
        norms[torch.from_numpy(places)] = _scattered(shards, lengths, w0[:0])
        return torch.stack(parts).sum(0)

    def _single_steps(
        self,
        step: StepSum,
        w0: Tensor,
        data: ClientData,
        single: BoolArray,
        clip_norm: float,
        draws: tuple[Randomness, int],
        norms: Tensor,
    ) -> Tensor:
        """Returns the sum of the clipped updates of the clients who take a single step, and notes their norms."""
        own, places = data.some(single), np.flatnonzero(single)
        found = None if self.chunk is not None else grouped(own.clients, self._batch(own.sizes), *draws)
        order, groups = (np.arange(len(places)), None) if found is None else found
        shards = self._shards(w0, own.ordered(order), np.ones(len(order), np.int64), rows=0, groups=groups)
        jobs = [(shard, None if groups is None else groups[shard.places], w0, clip_norm, *draws) for shard in shards]
        parts, lengths = zip(*self._pool.each(step, jobs), strict=True)
        norms[torch.from_numpy(places[order])] = _scattered(shards, lengths, w0[:0])
        return torch.stack(parts).sum(0)

    def example_sum(
        self,
        w0: Tensor,
        data: ClientData,
        clip_norm: float,
        sampling_rate: float | None,
        randomness: Randomness,
        round_: int,
        per_client: bool = False,
    ) -> tuple[Tensor, IntArray, IntArray]:
        """Returns the sum of clipped per-example gradients, and each client's records in the batch, and clipped.

        Args:
            w0: the weights at which gradients are taken.
            data: the cohort's records.
            clip_norm: L2 bound on each example's gradient.
            sampling_rate: probability that a record is in its client's batch; None takes all records.
            randomness: where the coins come from.
            round_: the round.
            per_client: one sum for each client, `[n, d]`, instead of one over all, `[d]`.
        """
        batch = data.sizes
        if sampling_rate is not None and self.choice.engine == "taps":  # whose passes cost much, however few records
            batch = np.maximum(1, np.ceil(sampling_rate * batch)).astype(np.int64)
        shards = self._shards(w0, data, np.ones(len(data.clients), np.int64), batch)
        jobs = [(shard, w0, clip_norm, sampling_rate, randomness, round_, per_client) for shard in shards]
        found = self._pool.each(self._examples, jobs)
        counts, clipped = np.zeros((2, len(data.clients)), np.int64)
        for shard, (_, taken, limited) in zip(shards, found, strict=True):
            counts[shard.places], clipped[shard.places] = taken, limited
        sums, nobody = [part for part, *_ in found], w0.expand(0, -1)
        if not per_client:
            return torch.cat([nobody.double(), *sums]).sum(0), counts, clipped
        double = any(part.dtype == torch.float64 for part in sums)
        return _scattered(shards, sums, nobody.double() if double else nobody), counts, clipped

    def private_steps(
        self,
        w0: Tensor,
        data: ClientData,
        clip_norm: float,
        noise_multiplier: float,
        sampling_rate: float | None,
        steps: int,
        randomness: Randomness,
        round_: int,
        order: Order = "clip_then_noise",
        batch: float | None = None,
    ) -> Update:
        """Returns u = w_K − w_0 after local DP-SGD in every client; see `private.Privacy` for the arguments."""
        privacy = Privacy(clip_norm, noise_multiplier, sampling_rate, steps, order, batch)
        shards = self._shards(w0, data, np.full(len(data.clients), steps), data.sizes)
        found = self._pool.each(self._private, [(shard, w0, privacy, randomness, round_) for shard in shards])
        return Update(data.clients, _scattered(shards, found, w0.expand(0, -1)), data.sizes)

    def evaluate(self, w: Tensor, x: Tensor, y: Tensor, batch: int | None = None) -> tuple[float, float | None]:
        """Returns the mean loss, and the accuracy (None where targets are numbers); `batch` records at a time."""
        if batch is None:
            record = engines.footprint(self._gradients, tuple(x.shape[1:]), x.dtype)
            batch = min(_MOST_TESTED, max(_FEWEST_TESTED, CACHED // record))
        jobs = [(w, *part) for part in zip(x.split(batch), y.split(batch), strict=True)]
        losses, right = zip(*self._pool.each(self._evaluation, jobs), strict=True)
        return sum(losses) / len(y), None if y.is_floating_point() else sum(right) / len(y)

    def right(self, w: Tensor, x: Tensor, y: Tensor) -> int:
        """Returns how many predictions are right.

        **Formal guarantees**: one record more or less changes the count by at most 1: what the model says of a record
        is the same to the bit beside any others, as far as `alike.py` finds. Where no fast engine passes that, each is
        looked at alone.
        """
        alone = self.choice.engine == "loop"
        filled = x if alone else torch.cat([x, x[:1].expand(-len(x) % FULL, *x.shape[1:])])
        parts = filled.split(1 if alone else _MOST_TESTED)
        found = torch.cat(self._pool.each(self._outputs, [(w, part) for part in parts]))
        return int(right(found[: len(x)], y).sum())

    def outputs(self, w: Tensor, x: Tensor) -> Tensor:
        """Returns the model's outputs for records."""
        return self._outputs(w, x)

    def _counts(self, data: ClientData) -> IntArray:
        """Returns the number of local steps of each client."""
        if self.settings.steps is not None:
            return np.full(len(data.clients), self.settings.steps)
        per_epoch = -(-data.sizes // np.maximum(1, self._batch(data.sizes)))
        return per_epoch * (self.settings.epochs or 1)

    def _batch(self, sizes: IntArray) -> IntArray:
        return sizes if self.settings.batch_size is None else np.minimum(sizes, self.settings.batch_size)

    def _shards(
        self,
        w0: Tensor,
        data: ClientData,
        counts: IntArray,
        batch: IntArray | None = None,
        rows: int = 4,
        groups: IntArray | None = None,
    ) -> list[Shard]:
        """Cuts the cohort into stretches of about the same work, with so many rows of numbers held for a client.

        No cut divides one of the `groups`, if there are any.
        """
        if w0.shape != (self.width,):
            raise ModelError(f"the weights are {tuple(w0.shape)}, but the model has {self.width}: give one flat row.")
        batch = self._batch(data.sizes) if batch is None else batch
        record = engines.footprint(self._gradients, data.input_shape, data.input_dtype)
        memory = 4 * (2 * record * batch + rows * self.width)
        return [Shard.of(data, stretch) for stretch in engines.stretches(batch * counts, memory, self.chunk, groups)]


def _scattered(shards: Sequence[Shard], parts: Sequence[Tensor], nobody: Tensor) -> Tensor:
    """Returns the shards' rows in the order of the cohort; `nobody` is the answer for an empty one."""
    rows = nobody.new_empty(sum(len(part) for part in parts), *nobody.shape[1:])
    for shard, part in zip(shards, parts, strict=True):
        rows[torch.from_numpy(shard.places)] = part.to(rows.dtype)
    return rows


def _trace(shards: Sequence[Shard], memories: Sequence[LastSteps], counts: IntArray, w0: Tensor) -> Trace:
    nobody = w0.expand(0, -1)
    states = memories[0].state if memories else {}
    return Trace(
        before=_scattered(shards, [memory.before for memory in memories], nobody),
        gradient=_scattered(shards, [memory.gradient for memory in memories], nobody),
        last_gradient=_scattered(shards, [memory.last_gradient for memory in memories], nobody),
        state={
            name: _scattered(shards, [memory.state[name] for memory in memories], like[:0])
            for name, like in states.items()
        },
        steps=int(counts.max(initial=0)),
    )

"""adap DP-FL: local DP-SGD with a clip norm of each client's own, from its last noisy gradients, and noise that falls.

Fu, Chen, Han (2022), "Adap DP-FL: Differentially Private Federated Learning with Adaptive Noise", as Xue et al. cite it
([27]): the threshold of a client is α times the norm of the mean of its gradients in the round before, and σ is
multiplied by β once the loss on validation data has fallen three times running. Unit record, trust local, add_remove.

**Certified**: what is charged. *Proof.* The gradients that thresholds are made of are the noisy ones (the text calls
them differentially private), so given a client's past its threshold C is a constant. A local step clips each gradient
to C and adds N(0, (z·C)²) to the sum over a Poisson batch: a sampled Gaussian of multiplier z, whatever C is. Messages
and thresholds are functions of the noisy steps. z falls by public data alone, and then a privacy filter admits rounds.

Where we deviate: a client tells its threshold to the server, which tells it again next round, so that clients need no
memory: it follows from what the client has sent. The first threshold, α and β are options; without public data z stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from papers.rivals.steps import each_client
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.vouched import AsTrained
from sordino.data.client_data import ClientData
from sordino.errors import SordinoError
from sordino.events import SelfComposedDpEvent
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.local_dp_sgd import batches
from sordino.mechanisms.spec import MechanismSpec, Options
from sordino.perturb.steps import StepNoise, step_event
from sordino.random.on_grid import noisy_sums
from sordino.stages import Bounded, Released, Sensitivity, Sent, Summed, Update
from sordino.terms import Knobs, Turn, scalar
from sordino.train.batches import PoissonBatches
from sordino.train.private import example_sums
from sordino.train.shard import Shard
from sordino.train.trainer import Trainer

THRESHOLDS = "thresholds"
_LEAST, _MOST = 1e-6, 1e6
"""A threshold stays between these, so that its steps can be computed."""
_IN_A_ROW = 3


class AdapDpFl(Options):
    """Thresholds from noisy gradients; `clip_norm` is everybody's first one, `noise_multiplier` the first round's."""

    name: Literal["adap_dp_fl"] = "adap_dp_fl"
    alpha: float = Field(1.0, gt=0, description="α: threshold over the norm of the last round's mean gradient")
    beta: float = Field(0.9, gt=0, le=1, description="β: noise is multiplied by it when the loss fell thrice running")


@dataclass(frozen=True)
class OwnThresholdSteps:
    """Local DP-SGD, each client with its own clip norm; beside the update, the norm of its mean noisy gradient."""

    sampling_rate: float
    steps: int
    batch: float

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        known, rows = turn.knobs[THRESHOLDS], [turn.weights.expand(0, -1)]
        told = torch.zeros(len(data.clients), len(known), dtype=known.dtype)
        for place, shard in enumerate(each_client(data)):
            client = int(shard.clients[0])
            row, norm = self._client(trainer, turn, shard, float(known[client]))
            rows.append(row)
            told[place, client] = norm
        z = turn.knobs.noise_multiplier
        return Update(data.clients, torch.cat(rows), data.sizes, side={THRESHOLDS: told}, noise_multiplier=z)

    def _client(self, trainer: Trainer, turn: Turn, shard: Shard, bound: float) -> tuple[Tensor, float]:
        w = turn.weights.detach().clone()[None]
        state, total = trainer.optimizer.init(w), torch.zeros_like(w)
        drawn = PoissonBatches(shard, self.sampling_rate, turn.randomness, turn.round_)
        for step in range(self.steps):
            sums, _ = example_sums(trainer.gradients, w, shard, drawn.step(step)[0], bound)
            keys = turn.randomness.keys(f"local noise/{step}", turn.round_, shard.clients)
            found = noisy_sums(sums, bound, turn.knobs.noise_multiplier, keys, dtype=w.dtype).div_(self.batch)
            total += found
            delta, state = trainer.optimizer.step(state, found)
            w.add_(delta)
        return w.sub_(turn.weights), float(total.norm()) / self.steps


@dataclass(frozen=True)
class OwnUnits:
    """Accepts updates whose every step was noised in units of the client's own threshold, and nothing else.

    **Formal guarantees**: in these units a record contributes at most 1 to a step's sum, against noise of the turn's
    multiplier, which the local steps vouch for.
    """

    def sensitivity(self, knobs: Knobs) -> Sensitivity:
        why = "in every local step each record's gradient is clipped to a threshold that follows from earlier messages"
        return Sensitivity(1.0, 2, "record", why, rowwise=False, single=False)

    def bound(self, update: Update, turn: Turn) -> Bounded:
        if (update.noise_multiplier or 0.0) < turn.knobs.noise_multiplier * (1 - 1e-9):
            raise SordinoError("a local step carried less noise than is charged: the steps must use the turn's noise")
        return replace(AsTrained().bound(update, turn), sensitivity=self.sensitivity(turn.knobs))


@dataclass(frozen=True)
class ToldThresholds(StepNoise):
    """Prices the noisy steps, and lets what follows from them (the thresholds) ride along."""

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        sent = super().shield(bounded, turn)
        return replace(sent, message=replace(sent.message, side=bounded.side))

    def release(self, summed: Summed, turn: Turn) -> Released:
        released = super().release(summed, turn)
        mean_square = float(turn.knobs[THRESHOLDS][torch.from_numpy(summed.survivors)].square().mean())
        return replace(released, stddev=0.0 if summed.empty else released.stddev * math.sqrt(mean_square))


@dataclass(frozen=True)
class ThriceFallen(Steady):
    """The next thresholds from what was told, and less noise once the public loss has fallen three times running."""

    population: int = 1
    alpha: float = 1.0
    beta: float = 1.0

    def start(self) -> Knobs:
        first = torch.full((self.population,), self.clip_norm, dtype=torch.float64)
        # in units of each client's own threshold the bound is 1
        return Knobs(1.0, self.noise_multiplier, {THRESHOLDS: first, "loss": scalar(math.inf), "falls": scalar(0)})

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        known = turn.knobs[THRESHOLDS]
        told = released.side.get(THRESHOLDS, torch.zeros_like(known)).to(known.dtype)
        following = (self.alpha * told).clamp(_LEAST, _MOST).where(torch.isfinite(told) & (told > 0), known)
        loss, falls = public.get("loss", math.inf), turn.knobs.number("falls")
        falls = falls + 1 if loss < turn.knobs.number("loss") else 0
        fallen = falls >= _IN_A_ROW
        noise = turn.knobs.noise_multiplier * (self.beta if fallen else 1.0)
        following_knobs = {THRESHOLDS: following, "loss": scalar(loss), "falls": scalar(0 if fallen else falls)}
        return turn.knobs.but(noise_multiplier=noise).plus(following_knobs)


def compose(options: AdapDpFl, facts: PublicFacts) -> Mechanism:
    """Returns the composition."""
    rate, steps = batches(None, facts)
    batch = rate * facts.mean_records
    noise = ToldThresholds(rate, steps, facts.train.learning_rate / batch)
    multiplier = facts.calibrate(options, noise)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="record",
        trust="local",
        selector=facts.selector,
        local=OwnThresholdSteps(rate, steps, batch),
        bounder=OwnUnits(),
        perturber=noise,
        aggregator=PlainSum(None),
        adapter=ThriceFallen(options.clip_norm, multiplier, facts.population, options.alpha, options.beta),
        adaptive=facts.public,
        planned=SelfComposedDpEvent(step_event(multiplier, rate, steps), facts.rounds) if facts.public else None,
    )


SPEC = MechanismSpec(
    AdapDpFl,
    compose,
    "record",
    "local",
    "local DP-SGD, each client's clip norm from its last noisy gradients",
    "Fu, Chen, Han (2022), Adap DP-FL",
)

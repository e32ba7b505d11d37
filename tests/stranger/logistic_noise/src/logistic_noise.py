"""logistic: every client adds logistic noise to its L1-clipped update. Unit client, trust local, adjacency zero_out.

**Formal guarantees**: the logistic density of scale s changes by at most e^{|a|/s} under a shift by a, so a message
whose L1 norm is at most C, with noise of scale z·C on each coordinate, is (1/z)-private by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import attrs
import numpy as np
import torch

import sordino
from sordino.account.accountants.profile import Profile
from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip
from sordino.events import DpEvent
from sordino.mechanism import needs
from sordino.perturb.price import prices, realised
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.train.local import LocalSteps


@attrs.frozen
class LogisticEvent(DpEvent):
    """Logistic noise of this multiple of the L1 sensitivity: pure ε = 1 / noise_multiplier."""

    noise_multiplier: float


def renyi(event: LogisticEvent, orders: np.ndarray, adjacency: str) -> np.ndarray:
    """Randomised response is the worst pair of pure ε (Kairouz, Oh, Viswanath 2015)."""
    e, a = 1 / event.noise_multiplier, np.minimum(orders, 500.0)
    bound = np.logaddexp(a * e - np.logaddexp(0, e), (1 - a) * e - np.logaddexp(0, -e) - e) / (a - 1)
    return np.minimum(np.maximum(bound, 0.0), e)


def losses(event: LogisticEvent, adjacency: str) -> Profile:
    e = 1 / event.noise_multiplier

    def deltas(epsilon: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, -np.expm1(epsilon - e)) / (1 + math.exp(-e))

    return Profile(deltas, deltas)


@dataclass(frozen=True)
class LogisticNoise(sordino.Perturber):
    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(1, bound, "logistic noise")

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return prices("client", "local", "zero_out", knobs.noise_multiplier, LogisticEvent)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        scale, width = turn.knobs.noise_multiplier * bounded.norm, bounded.rows.shape[1]
        draws = [
            turn.randomness.generator("shield", turn.round_, int(c)).logistic(0, scale, width) for c in bounded.clients
        ]
        rows = bounded.rows + torch.from_numpy(np.reshape(draws, (-1, width))).float()
        return Sent(bounded.shielded(rows, turn.knobs.noise_multiplier**2))

    def release(self, summed: Summed, turn: Turn) -> Released:
        stddev = math.pi / math.sqrt(3) * math.sqrt(summed.squared_multiplier) * summed.norm / summed.weight
        return Released(summed.mean(turn.weights.dtype), stddev, realised(self, turn, summed.least_squared_multiplier))


class Logistic(sordino.Options):
    """Local logistic noise; `clip_norm` is an L1 norm."""

    name: Literal["logistic"] = "logistic"


def compose(options: Logistic, facts: sordino.PublicFacts) -> sordino.Mechanism:
    noise = LogisticNoise()
    return sordino.Mechanism(
        name=options.name, mode=options.mode, unit="client", trust="local", selector=facts.selector, local=LocalSteps(),
        bounder=Clip(order=1), perturber=noise, aggregator=PlainSum(facts.expected),
        adapter=Steady(options.clip_norm, facts.calibrate(options, noise)),
    )  # fmt: skip


sordino.register_event(LogisticEvent, renyi, losses)
SPEC = sordino.MechanismSpec(Logistic, compose, "client", "local", "each client adds logistic noise to its update")

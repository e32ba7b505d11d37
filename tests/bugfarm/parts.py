"""Broken parts: each is a real part with one mistake that somebody could make, and that has been made elsewhere."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip, clip_rows
from sordino.bound.near import Near
from sordino.bound.scaled import ScaledClip
from sordino.bound.weighted import WeightedClip
from sordino.events import Charge, DpEvent, Guarantee, NoOpDpEvent, PoissonSampledDpEvent
from sordino.mechanism import Prices, Reveal, Turn, Vanished
from sordino.perturb.correlated import CorrelatedNoise
from sordino.perturb.gaussian import SERVER_ID, CentralGaussian, LocalGaussian
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.quantile import QuantileGaussian
from sordino.perturb.shares import GaussianShares
from sordino.perturb.skellam import SkellamShares
from sordino.select.poisson import Poisson
from sordino.stages import Bounded, Released, Shielded, Summed, Update
from sordino.train.local import ExampleGradients, SummedSteps
from sordino.train.noisy import PrivateSteps
from sordino.train.trainer import Trainer
from sordino.types import IntArray


def _noised(bounded: Bounded, noise: Tensor) -> Shielded:
    return Shielded(bounded.clients, bounded.rows + noise, bounded.weights)


def _stddev(turn: Turn) -> float:
    return turn.knob("noise_multiplier") * turn.knob("clip_norm")


class HalfNoise(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise * _stddev(turn) * 0.5)


class VarianceForStddev(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise * _stddev(turn) ** 2)


class SameNoiseEveryRound(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        return super().shield(bounded, replace(turn, round_=0))


class NeighboursShareASeed(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients // 2, bounded.rows.shape[1])
        return _noised(bounded, noise * _stddev(turn))


class OneDrawForAllCoordinates(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, 1)
        return _noised(bounded, noise.expand_as(bounded.rows) * _stddev(turn))


class NoNoiseOnTheBias(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        noise[:, 2:] = 0
        return _noised(bounded, noise * _stddev(turn))


class ClampedNoise(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise.clamp(-2, 2) * _stddev(turn))


class ReplacementAtThePriceOfAbsence(LocalGaussian):
    def price(self, turn: Turn) -> Prices:
        absence = replace(LocalGaussian(), adjacency="zero_out").price(turn)
        return tuple((Guarantee(g.unit, g.observer, self.adjacency), event) for g, event in absence)


class ForgottenParticipation(LocalGaussian):
    def price(self, turn: Turn) -> Prices:
        free = turn.round_ % 2 == 0
        return tuple((g, NoOpDpEvent() if free else event) for g, event in super().price(turn))


class NoiseOfTheNextRound(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        sooner = turn.knobs["noise_multiplier"] * math.sqrt(0.25)  # θ^(1/2) for θ = 1/4
        return super().shield(bounded, replace(turn, knobs={**turn.knobs, "noise_multiplier": sooner}))


class ClipsTheFirstTensorOnly(Clip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        rows, clipped = clip_rows(update.rows[:, :2], turn.knob("clip_norm"))
        return Bounded(update.clients, torch.cat([rows, update.rows[:, 2:]], 1), torch.ones(len(rows)), clipped)


class ClipsTensorByTensor(Clip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        parts = [clip_rows(part, turn.knob("clip_norm")) for part in update.rows.split(2, dim=1)]
        rows = torch.cat([part for part, _ in parts], 1)
        return Bounded(update.clients, rows, torch.ones(len(rows)), parts[0][1] | parts[1][1])


class LetsInfinityThrough(Clip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        norms = update.rows.norm(dim=1, keepdim=True)
        rows = update.rows * (turn.knob("clip_norm") / norms).clamp(max=1)
        return Bounded(update.clients, rows, torch.ones(len(rows)), norms[:, 0] > turn.knob("clip_norm"))


class ClipsInTheWrongNorm(Clip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return Clip(order=2.0).bound(update, turn)


class TrustsTheClaimedSize(WeightedClip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        rows, clipped = clip_rows(update.rows, turn.knob("clip_norm"))
        weights = torch.from_numpy(update.sizes / (self.record_limit or 1)).float()
        return Bounded(update.clients, rows * weights[:, None], weights, clipped)


class ForgetsToStayNear(Near):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return Clip().bound(update, turn)


class ClipsBeforeItScales(ScaledClip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        rows, clipped = clip_rows(update.rows, turn.knob("clip_norm"))
        return Bounded(update.clients, rows / turn.knobs["scales"], torch.ones(len(rows)), clipped)


class FreshNoiseTooSmall(CorrelatedNoise):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        smaller = turn.knobs["noise_multiplier"] * turn.knobs["difference"]
        return super().shield(bounded, replace(turn, knobs={**turn.knobs, "noise_multiplier": smaller}))


class SameServerNoiseEveryRound(CentralGaussian):
    def release(self, summed: Summed, turn: Turn) -> Released:
        return super().release(summed, replace(turn, round_=0))


class NoiseDividedTwice(CentralGaussian):
    def release(self, summed: Summed, turn: Turn) -> Released:
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(summed.total))[0]
        stddev = _stddev(turn) / summed.weight
        return Released((summed.total + noise * stddev) / summed.weight, stddev)


class DividesByWhoeverCame(PlainSum):
    def sum(self, messages: Iterable[Shielded], turn: Turn, vanished: Vanished, reveal: Reveal) -> Summed:
        return PlainSum(None, self.tolerance).sum(messages, turn, vanished, reveal)


class NoiseOfTheNextClipNorm(QuantileGaussian):
    rate = 2.0

    def release(self, summed: Summed, turn: Turn) -> Released:
        share = float(summed.side["unclipped"]) / summed.weight + 0.5
        following = turn.knobs["clip_norm"] * math.exp(-self.rate * (share - 0.5))
        return super().release(summed, replace(turn, knobs={**turn.knobs, "clip_norm": following}))


class QuantileForFree(QuantileGaussian):
    def release(self, summed: Summed, turn: Turn) -> Released:
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(summed.total) + 1)[0]
        mean = (summed.total + noise[:-1] * _stddev(turn)) / summed.weight
        share = (summed.side["unclipped"] + noise[-1:] * self.bit_stddev) / summed.weight + 0.5
        return Released(mean, _stddev(turn) / summed.weight, side={"unclipped": share})


class SharesForEverybody(GaussianShares):
    """Draws shares as if nobody could vanish."""

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        share = _stddev(turn) / math.sqrt(len(turn.cohort))
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise * share)


class SharesDividedByTheCount(GaussianShares):
    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise * _stddev(turn) / len(turn.cohort))


class ThinsWithoutFreshNoise(GaussianShares):
    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        shown = super().reveal(message, survivors, turn)
        if shown is None or message.kept is None:
            return None
        least = max(1, math.ceil(round(len(turn.cohort) * (1 - self.tolerance), 9)))
        return message.kept * (1 - math.sqrt(least / len(survivors)))


class ThinsByTheSameStream(GaussianShares):
    """Draws the fresh noise of thinning from the stream of the share itself."""

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        class Same:
            def normals(self, purpose: str, round_: int, clients: IntArray, width: int) -> Tensor:
                return turn.randomness.normals("shield", round_, clients, width)

        return super().reveal(message, survivors, replace(turn, randomness=Same()))  # type: ignore[arg-type]


class IntegerNoiseInFloatUnits(IntegerShares):
    def _shares(self, turn: Turn) -> SkellamShares:
        right = super()._shares(turn)
        return replace(right, variance=right.variance / self.rounding.scale)


class AmplifiesAgainstTheServer(Poisson):
    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        return Charge(guarantee, PoissonSampledDpEvent(self.rate, event), "eligible")


@dataclass(frozen=True)
class ForgetsTheCoin(ExampleGradients):
    def train(self, trainer: Trainer, turn: Turn, data: object) -> Update:
        return ExampleGradients(1.0).train(trainer, turn, data)  # type: ignore[arg-type]


@dataclass(frozen=True)
class VouchesForNothing(ExampleGradients):
    """Sums gradients without clipping them, and says that it clipped."""

    def train(self, trainer: Trainer, turn: Turn, data: object) -> Update:
        wide = replace(turn, knobs={**turn.knobs, "clip_norm": turn.knobs["clip_norm"] * 1e6})
        update = super().train(trainer, wide, data)  # type: ignore[arg-type]
        return replace(update, example_clip=turn.knob("clip_norm"))


@dataclass(frozen=True)
class ClipsTheSumOnly(SummedSteps):
    """Clips the sum of all updates, to as much as all of them together could have, in place of each."""

    def train(self, trainer: Trainer, turn: Turn, data: object) -> Update:
        wide = replace(turn, knobs={**turn.knobs, "clip_norm": turn.knobs["clip_norm"] * len(turn.cohort)})
        update = super().train(trainer, wide, data)  # type: ignore[arg-type]
        return replace(update, client_clip=turn.knob("clip_norm"))


@dataclass(frozen=True)
class NoiseBeforeClipping(PrivateSteps):
    def train(self, trainer: Trainer, turn: Turn, data: object) -> Update:
        update = replace(self, order="noise_then_clip")._plainly(trainer, turn, data)
        vouched = {"example_clip": turn.knob("clip_norm"), "noise_multiplier": turn.knob("noise_multiplier")}
        return replace(update, **vouched)

    def _plainly(self, trainer: Trainer, turn: Turn, data: object) -> Update:
        return PrivateSteps.train(self, trainer, turn, data)  # type: ignore[arg-type]


def short_key(name: str) -> np.ndarray:
    """A stream's key from a short seed: 16 bits, of which 2^32 streams have to share 65,536."""
    return np.array([zlib.crc32(name.encode()) & 0xFFFF, 0], np.uint64)

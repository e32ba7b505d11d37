"""Broken parts: each is a real part with one mistake that somebody could make, and that has been made elsewhere."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sordino.aggregate.plain import PartialSum, PlainSum
from sordino.bound.l2 import Clip, clip_rows
from sordino.bound.near import Near
from sordino.bound.scaled import ScaledClip
from sordino.bound.weighted import WeightedClip
from sordino.events import Charge, DpEvent, Guarantee, NoOpDpEvent, PoissonSampledDpEvent
from sordino.perturb.correlated import CorrelatedNoise
from sordino.perturb.gaussian import SERVER_ID, CentralGaussian, LocalGaussian
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.quantile import QuantileGaussian
from sordino.perturb.shares import GaussianShares, admissible
from sordino.perturb.skellam import SkellamShares
from sordino.select.poisson import Poisson
from sordino.stages import Bounded, Kept, Prices, Released, Revealed, Sent, Summed, Update
from sordino.terms import Knobs, Survivors, Terms, Turn, Vanished
from sordino.train.local import ExampleGradients, SummedSteps
from sordino.train.noisy import PrivateSteps
from sordino.train.trainer import Trainer
from sordino.types import IntArray


def _noised(bounded: Bounded, noise: Tensor, multiplier: float) -> Sent:
    """Returns messages that say, truly or not, that their noise is of this multiplier."""
    return Sent(bounded.shielded(bounded.rows + noise, multiplier**2))


def _stddev(turn: Turn) -> float:
    return turn.knobs.noise_multiplier * turn.knobs.clip_norm


class HalfNoise(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise * _stddev(turn) * 0.5, turn.knobs.noise_multiplier)


class FloatNoise(LocalGaussian):
    """Right in every moment, and added in single precision: the low bits of the sum tell what was added."""

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise * _stddev(turn), turn.knobs.noise_multiplier)


class FloatNoiseOfTheServer(CentralGaussian):
    def release(self, summed: Summed, turn: Turn) -> Released:
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(summed.total))[0]
        mean = (summed.total.float() + noise * _stddev(turn)) / summed.weight
        return Released(mean, _stddev(turn) / summed.weight, self.price(turn.knobs, turn.round_))


class VarianceForStddev(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise * _stddev(turn) ** 2, turn.knobs.noise_multiplier)


class SameNoiseEveryRound(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        return super().shield(bounded, turn.but(round_=0))


class NeighboursShareASeed(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients // 2, bounded.rows.shape[1])
        return _noised(bounded, noise * _stddev(turn), turn.knobs.noise_multiplier)


class OneDrawForAllCoordinates(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, 1)
        return _noised(bounded, noise.expand_as(bounded.rows) * _stddev(turn), turn.knobs.noise_multiplier)


class NoNoiseOnTheBias(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        noise[:, 2:] = 0
        return _noised(bounded, noise * _stddev(turn), turn.knobs.noise_multiplier)


class ClampedNoise(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise.clamp(-2, 2) * _stddev(turn), turn.knobs.noise_multiplier)


class CountsNoiseThatIsNotThere(LocalGaussian):
    """Credits an outsider's promise with the noise of four times as many messages as every sum holds."""

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return LocalGaussian(self.unit, self.adjacency, 4 * self.least).price(knobs, round_)


class ReplacementAtThePriceOfAbsence(LocalGaussian):
    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        absence = LocalGaussian(self.unit, "zero_out").price(knobs, round_)
        return tuple((Guarantee(g.unit, g.observer, self.adjacency), event) for g, event in absence)


class ForgottenParticipation(LocalGaussian):
    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        free = round_ % 2 == 0
        return tuple((g, NoOpDpEvent() if free else event) for g, event in super().price(knobs, round_))


class NoiseOfTheNextRound(LocalGaussian):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        sooner = turn.knobs.noise_multiplier * math.sqrt(0.25)  # θ^(1/2) for θ = 1/4
        return super().shield(bounded, turn.but(knobs=turn.knobs.but(noise_multiplier=sooner)))


class ClipsTheFirstTensorOnly(Clip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        rows, clipped = clip_rows(update.rows[:, :2], turn.knobs.clip_norm)
        whole = torch.cat([rows, update.rows[:, 2:]], 1)
        return Bounded(update.clients, whole, torch.ones(len(rows)), clipped, self.sensitivity(turn.knobs))


class ClipsTensorByTensor(Clip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        parts = [clip_rows(part, turn.knobs.clip_norm) for part in update.rows.split(2, dim=1)]
        rows = torch.cat([part for part, _ in parts], 1)
        clipped = parts[0][1] | parts[1][1]
        return Bounded(update.clients, rows, torch.ones(len(rows)), clipped, self.sensitivity(turn.knobs))


class LetsInfinityThrough(Clip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        norms = update.rows.norm(dim=1, keepdim=True)
        rows = update.rows * (turn.knobs.clip_norm / norms).clamp(max=1)
        clipped = norms[:, 0] > turn.knobs.clip_norm
        return Bounded(update.clients, rows, torch.ones(len(rows)), clipped, self.sensitivity(turn.knobs))


class ClipsInTheWrongNorm(Clip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return replace(Clip(order=2).bound(update, turn), sensitivity=self.sensitivity(turn.knobs))


def _as_sums(bounded: Bounded) -> Bounded:
    """Returns rows that are said to be sums, one unit of which keeps the bound: nobody measures or shortens those."""
    assert bounded.sensitivity is not None
    return replace(bounded, sensitivity=replace(bounded.sensitivity, rowwise=False))


class FirstTensorOnlyAsSums(ClipsTheFirstTensorOnly):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return _as_sums(super().bound(update, turn))


class TensorByTensorAsSums(ClipsTensorByTensor):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return _as_sums(super().bound(update, turn))


class InfinityAsSums(LetsInfinityThrough):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return _as_sums(super().bound(update, turn))


class TrustsTheClaimedSize(WeightedClip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        rows, clipped = clip_rows(update.rows, turn.knobs.clip_norm)
        weights = torch.from_numpy(update.sizes / (self.record_limit or 1)).float()
        return Bounded(update.clients, rows * weights[:, None], weights, clipped, self.sensitivity(turn.knobs))


class ForgetsToStayNear(Near):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return Clip().bound(update, turn)


class ClipsBeforeItScales(ScaledClip):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        rows, clipped = clip_rows(update.rows, turn.knobs.clip_norm)
        scaled = rows / turn.knobs["scales"]
        return Bounded(update.clients, scaled, torch.ones(len(rows)), clipped, self.sensitivity(turn.knobs))


class ForgetsToStayNearAsSums(ForgetsToStayNear):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return _as_sums(super().bound(update, turn))


class ClipsBeforeItScalesAsSums(ClipsBeforeItScales):
    def bound(self, update: Update, turn: Turn) -> Bounded:
        return _as_sums(super().bound(update, turn))


class FreshNoiseTooSmall(CorrelatedNoise):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        smaller = turn.knobs.noise_multiplier * turn.knobs.number("difference")
        return super().shield(bounded, turn.but(knobs=turn.knobs.but(noise_multiplier=smaller)))


class SameServerNoiseEveryRound(CentralGaussian):
    def release(self, summed: Summed, turn: Turn) -> Released:
        return super().release(summed, turn.but(round_=0))


class NoiseDividedTwice(CentralGaussian):
    def release(self, summed: Summed, turn: Turn) -> Released:
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(summed.total))[0]
        stddev = _stddev(turn) / summed.weight
        mean = (summed.total + noise * stddev) / summed.weight
        return Released(mean, stddev, self.price(turn.knobs, turn.round_))


class DividesByWhoeverCame(PlainSum):
    def finish(self, partial: PartialSum, vanished: Vanished) -> Summed:
        return PlainSum(None, self.tolerance).finish(partial, vanished)


class NoiseOfTheNextClipNorm(QuantileGaussian):
    rate = 2.0

    def release(self, summed: Summed, turn: Turn) -> Released:
        share = float(summed.side["unclipped"]) / summed.weight + 0.5
        assert summed.sensitivity is not None
        following = summed.norm * math.exp(-self.rate * (share - 0.5))
        return super().release(replace(summed, sensitivity=replace(summed.sensitivity, norm=following)), turn)


class QuantileForFree(QuantileGaussian):
    def release(self, summed: Summed, turn: Turn) -> Released:
        noise = turn.randomness.normals("release", turn.round_, SERVER_ID, len(summed.total) + 1)[0]
        mean = (summed.total + noise[:-1] * _stddev(turn)) / summed.weight
        share = (summed.side["unclipped"] + noise[-1:] * self.bit_stddev) / summed.weight + 0.5
        price = self.price(turn.knobs, turn.round_)
        return Released(mean, _stddev(turn) / summed.weight, price, side={"unclipped": share})


class SharesForEverybody(GaussianShares):
    """Draws shares as if nobody could vanish."""

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        share = turn.knobs.noise_multiplier / math.sqrt(len(turn.cohort))
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        return _noised(bounded, noise * share * bounded.norm, share)


class SharesDividedByTheCount(GaussianShares):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        share = turn.knobs.noise_multiplier / math.sqrt(len(turn.cohort))
        return _noised(bounded, noise * _stddev(turn) / len(turn.cohort), share)


class ThinsWithoutFreshNoise(GaussianShares):
    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        shown = super().reveal(kept, survivors, turn)
        if shown is None:
            return None
        stays = admissible(len(turn.cohort), self.tolerance) / len(survivors.clients)
        return replace(shown, rows=kept.noise * (1 - math.sqrt(stays)))


class ThinsByTheSameStream(GaussianShares):
    """Draws the fresh noise of thinning from the stream of the share itself."""

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        class Same:
            def normals(self, purpose: str, round_: int, clients: IntArray, width: int) -> Tensor:
                return turn.randomness.normals("shield", round_, clients, width)

        return super().reveal(kept, survivors, Turn(turn.terms, Same()))  # type: ignore[arg-type]


class IntegerNoiseInFloatUnits(IntegerShares):
    def _shares(self, terms: Terms, norm: float) -> SkellamShares:
        right = super()._shares(terms, norm)
        return replace(right, variance=right.variance / self.rounding.scale)


class IntegerSharesForEverybody(IntegerShares):
    """Draws integer shares as if nobody could vanish, and reveals nothing."""

    def _shares(self, terms: Terms, norm: float) -> SkellamShares:
        return replace(super()._shares(terms, norm), smallest_cohort=len(terms.cohort))

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        return None


class IntegerSharesDividedTwice(IntegerShares):
    def _shares(self, terms: Terms, norm: float) -> SkellamShares:
        right = super()._shares(terms, norm)
        return replace(right, variance=right.variance / right.smallest_cohort)


class SameIntegersEveryRound(IntegerShares):
    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        return super().shield(bounded, turn.but(round_=0))


class ThinsByAFixedPart(IntegerShares):
    """Reveals a fixed part of each count in place of a random one: what stays can be computed from it."""

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        shown = super().reveal(kept, survivors, turn)
        if shown is None:
            return None
        shares = self._shares(turn.terms, kept.norm)
        stays = float(shares.share_variance(len(survivors.clients)) / shares.share_variance())
        counts = kept.noise.numpy()
        gone = counts - np.floor(counts * stays).astype(np.int64)
        return replace(shown, rows=torch.from_numpy(gone[:, 0] - gone[:, 1]))


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
        wide = turn.but(knobs=turn.knobs.but(clip_norm=turn.knobs.clip_norm * 1e6))
        update = super().train(trainer, wide, data)  # type: ignore[arg-type]
        return replace(update, example_clip=turn.knobs.clip_norm)


@dataclass(frozen=True)
class ClipsTheSumOnly(SummedSteps):
    """Clips the sum of all updates, to as much as all of them together could have, in place of each."""

    def train(self, trainer: Trainer, turn: Turn, data: object) -> Update:
        wide = turn.but(knobs=turn.knobs.but(clip_norm=turn.knobs.clip_norm * len(turn.cohort)))
        update = super().train(trainer, wide, data)  # type: ignore[arg-type]
        return replace(update, client_clip=turn.knobs.clip_norm)


@dataclass(frozen=True)
class NoiseBeforeClipping(PrivateSteps):
    def train(self, trainer: Trainer, turn: Turn, data: object) -> Update:
        update = replace(self, order="noise_then_clip")._plainly(trainer, turn, data)
        vouched = {"example_clip": turn.knobs.clip_norm, "noise_multiplier": turn.knobs.noise_multiplier}
        return replace(update, **vouched)

    def _plainly(self, trainer: Trainer, turn: Turn, data: object) -> Update:
        return PrivateSteps.train(self, trainer, turn, data)  # type: ignore[arg-type]


def short_key(name: str) -> np.ndarray:
    """A stream's key from a short seed: 16 bits, of which 2^32 streams have to share 65,536."""
    return np.array([zlib.crc32(name.encode()) & 0xFFFF, 0], np.uint64)

"""Privacy loss distributions: the tight numerical accountant, on pessimistic grids made from privacy profiles.

Formal guarantees: every grid is rounded pessimistically (connect-the-dots), and what composing grids may lose to
floating point is added (`composed.py`), so the curve is never below the true one, however small δ is.
Noise multipliers are relative to the sensitivity *under the stated adjacency*. Every event's reading is its profile,
`profile_of`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, singledispatch

from sordino.account.accountants import dominate, profile
from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.composed import ComposedLosses
from sordino.account.accountants.history import History, flatten
from sordino.account.accountants.parameters import require_cohort, require_positive
from sordino.account.accountants.profile import Losses, Profile, both_losses
from sordino.errors import UnknownEvent
from sordino.events import (
    CorrelatedGaussian,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    describe,
)
from sordino.types import Adjacency

FINEST, COARSEST = 2e-4, 4e-3
_POINTS = 400_000
"""Grid points that one history may build. Beyond it the grid gets coarser, and beyond COARSEST we refuse (too slow)."""
_DIFFERENT = 64
"""Different sampled events that one history may compose. Closer noise multipliers are rounded down to fewer levels."""


class TooSlow(Exception):
    """The grids of this history would take too long; the caller falls back and says so."""


@dataclass(frozen=True)
class LossDistribution:
    """The losses of a history, in both directions."""

    forward: ComposedLosses
    backward: ComposedLosses

    def epsilon(self, delta: float) -> float:
        """Returns the ε that is proved at this δ."""
        return max(self.forward.epsilon(delta), self.backward.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """Returns the δ that is proved at this ε."""
        return max(self.forward.delta(epsilon), self.backward.delta(epsilon))


def compose(history: History, adjacency: Adjacency, scale: float) -> LossDistribution:
    """Returns the loss distribution of a flattened history.

    Args:
        history: events with their counts.
        adjacency: the neighbouring relation.
        scale: the rough size of ε, from a cheaper accountant: the grid's relative fineness follows it.

    Raises:
        UnknownEvent: an event that has no loss distribution here.
        TooSlow: the history holds too many different events for a grid that is still accurate.
    """
    plain, rest = _apart(history)
    interval = _interval(rest, plain, adjacency, scale)
    counts = dict(rest)
    if mu := gaussian.separation(plain):
        counts[GaussianDpEvent(1 / mu)] = 1
    parts = [(grid(event, adjacency, interval), count) for event, count in counts.items()]
    ways = ([(grids[way], count) for grids, count in parts] for way in (0, 1))
    return LossDistribution(*(ComposedLosses(way, interval) for way in ways))


def _apart(history: History) -> tuple[History, History]:
    """Returns what plain Gaussians dominate, and the rest."""
    plain: Counter[DpEvent] = Counter()
    rest: Counter[DpEvent] = Counter()
    for event, count in history.items():
        (rest if dominate.separation(event) is None else plain)[event] += count
    return plain, rest


def simplified(history: History, adjacency: Adjacency) -> History:
    """Returns the history with sampled noise that Gaussians dominate written as sampled Gaussians.

    Formal guarantees: costs no less, since a kernel that turns the Gaussians into the noise does so to a mixture of
    them too. Poisson coins under `replace` mix three worlds, for which domination of pairs is not enough: they stay.
    """
    total: Counter[DpEvent] = Counter()
    for event, count in history.items():
        total[_as_gaussian(event, adjacency)] += count
    return total


@singledispatch
def _as_gaussian(event: DpEvent, adjacency: Adjacency) -> DpEvent:
    return event


@_as_gaussian.register
def _(event: PoissonSampledDpEvent, adjacency: Adjacency) -> DpEvent:
    mu = _sampled_separation(event) if adjacency != "replace" else None
    return event if mu is None else PoissonSampledDpEvent(event.sampling_probability, GaussianDpEvent(1 / mu))


@_as_gaussian.register
def _(event: SampledWithoutReplacementDpEvent, adjacency: Adjacency) -> DpEvent:
    mu = _sampled_separation(event, 1.0 if adjacency == "replace" else 2.0)
    size, population = event.sample_size, event.source_dataset_size
    return event if mu is None else SampledWithoutReplacementDpEvent(population, size, GaussianDpEvent(1 / mu))


def _sampled_separation(
    event: PoissonSampledDpEvent | SampledWithoutReplacementDpEvent, times: float = 1.0
) -> float | None:
    """Returns the distance of the Gaussians that dominate what is sampled, also for a change `times` as large."""
    inner = flatten(event.event)
    if any(isinstance(leaf, CorrelatedGaussian) or dominate.separation(leaf, times) is None for leaf in inner):
        return None
    return gaussian.separation(inner)


def fewer(history: History) -> History:
    """Returns a history of at most 64 different sampled Gaussians that costs no less.

    Formal guarantees: noise multipliers are only rounded down, to levels spaced evenly in their logarithm; less noise
    is never more private, so the result is an upper bound. Other events stay as they are.
    """
    sampled = {event: event.event.noise_multiplier for event in history if _is_sampled_gaussian(event)}
    least, most = min(sampled.values(), default=1.0), max(sampled.values(), default=1.0)
    if len(sampled) <= _DIFFERENT or least == most:
        return history
    step = math.log(most / least) / (_DIFFERENT - 1)
    total: Counter[DpEvent] = Counter()
    for event, count in history.items():
        if event in sampled:
            level = least * math.exp(step * math.floor(math.log(sampled[event] / least) / step))
            event = PoissonSampledDpEvent(event.sampling_probability, GaussianDpEvent(min(level, sampled[event])))
        total[event] += count
    return total


def _is_sampled_gaussian(event: DpEvent) -> bool:
    return isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, GaussianDpEvent)


def _interval(rest: History, plain: History, adjacency: Adjacency, scale: float) -> float:
    finest = FINEST * max(1.0, scale / 5)
    width = sum(_width(event, adjacency) for event in rest)
    if mu := gaussian.separation(plain):
        width += _width(GaussianDpEvent(1 / mu), adjacency)
    interval = max(finest, width / _POINTS)
    if interval > COARSEST * max(1.0, scale / 5) or len(rest) > _DIFFERENT:
        raise TooSlow(f"{len(rest)} different events need too many grid points")
    return interval


@lru_cache(maxsize=4096)
def _width(event: DpEvent, adjacency: Adjacency) -> float:
    return sum(profile.reach(profile_of(event, adjacency)))


@lru_cache(maxsize=256)
def grid(event: DpEvent, adjacency: Adjacency, interval: float) -> tuple[Losses, Losses]:
    """Returns the pessimistic loss distributions of one release, on a grid of this interval."""
    return both_losses(profile_of(event, adjacency), interval)


@singledispatch
def profile_of(event: DpEvent, adjacency: Adjacency) -> Profile:
    """Returns the profile of one release: bounds on δ at every ε, in both directions.

    Raises:
        UnknownEvent: none is proved for this event, or not under this adjacency.
    """
    if (mu := dominate.separation(event)) is not None:
        return profile.gaussian(mu)
    raise UnknownEvent(f"no loss distribution is known for the event {describe(event)}")


@profile_of.register
def _(event: LaplaceDpEvent, adjacency: Adjacency) -> Profile:
    require_positive("noise_multiplier", event.noise_multiplier)
    return profile.laplace(event.noise_multiplier)


@profile_of.register
def _(event: PoissonSampledDpEvent, adjacency: Adjacency) -> Profile:
    whole = _inside(event, adjacency)
    if adjacency != "replace":
        return profile.poisson(event.sampling_probability, whole)
    if isinstance(event.event, GaussianDpEvent):
        return profile.replaced_gaussian(event.sampling_probability, 1 / event.event.noise_multiplier)
    # One contribution against none is half of the change that the multipliers count in.
    half = _inside(event, adjacency, 0.5)
    parts = half.worst, whole.worst
    return profile.overlapping(event.sampling_probability, parts, parts)


@profile_of.register
def _(event: SampledWithoutReplacementDpEvent, adjacency: Adjacency) -> Profile:
    require_cohort(event)
    rate = event.sample_size / event.source_dataset_size
    own = _inside(event, adjacency)
    # Who is drawn instead may contribute the opposite: twice one contribution, which is the whole of a replacement.
    displaced = own if adjacency == "replace" else _inside(event, adjacency, 2.0)
    if adjacency == "add_remove":
        return displaced if rate == 1 else profile.poisson(rate, displaced)
    if rate == 1:
        return own
    return profile.overlapping(rate, (displaced.worst, own.worst), (own.worst, own.worst))


def _inside(
    event: PoissonSampledDpEvent | SampledWithoutReplacementDpEvent, adjacency: Adjacency, times: float = 1.0
) -> Profile:
    """Returns the profile of what is sampled, for a change that is `times` as large.

    Raises:
        UnknownEvent: the noises inside have no common profile, or the change cannot be scaled.
    """
    inner = flatten(event.event)
    if _sampled_separation(event, times) is not None:
        return profile.gaussian(times * (gaussian.separation(inner) or 0.0))
    if sum(inner.values()) == 1 and not isinstance(leaf := next(iter(inner)), CorrelatedGaussian):
        if isinstance(leaf, LaplaceDpEvent):
            return profile.laplace(leaf.noise_multiplier / times)
        if times == 1:
            return profile_of(leaf, adjacency)
    raise UnknownEvent(f"no loss distribution is known for the event {describe(event)} under adjacency {adjacency!r}")

"""Privacy loss distributions: the tight numerical accountant, built on dp_accounting's pessimistic grids.

Formal guarantees: every grid is rounded pessimistically (connect-the-dots), so the curve is never below the true one.
Noise multipliers are relative to the sensitivity *under the stated adjacency*; dp_accounting measures `replace` in
units of one contribution, which is half of that, so multipliers are doubled on the way in.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache, singledispatch

from dp_accounting.pld import privacy_loss_distribution as grids
from dp_accounting.privacy_accountant import NeighboringRelation

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.history import History
from sordino.account.accountants.rdp import require_positive
from sordino.errors import UnknownEvent
from sordino.events import (
    CorrelatedGaussian,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    describe,
)
from sordino.types import Adjacency

FINEST, COARSEST = 2e-4, 4e-3
_POINTS = 400_000
"""Grid points that one history may build. Beyond it the grid gets coarser, and beyond COARSEST we refuse (too slow)."""

_RELATION = {
    "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "zero_out": NeighboringRelation.REPLACE_SPECIAL,
    "replace": NeighboringRelation.REPLACE_ONE,
}


_DIFFERENT = 64
"""Different sampled events that one history may compose. Closer noise multipliers are rounded down to fewer levels."""


class TooSlow(Exception):
    """The grids of this history would take too long; the caller falls back and says so."""


def compose(history: History, adjacency: Adjacency, scale: float) -> grids.PrivacyLossDistribution:
    """Returns the loss distribution of a flattened history.

    Args:
        history: events with their counts.
        adjacency: the neighbouring relation.
        scale: the rough size of ε, from a cheaper accountant: the grid's relative fineness follows it.

    Raises:
        UnknownEvent: an event that has no loss distribution here.
        TooSlow: the history holds too many different events for a grid that is still accurate.
    """
    plain = {
        event: count for event, count in history.items() if isinstance(event, GaussianDpEvent | CorrelatedGaussian)
    }
    rest = {event: count for event, count in history.items() if event not in plain}
    interval = _interval(rest, plain, scale)
    total = grids.identity(value_discretization_interval=interval)
    if plain:
        total = total.compose(_gaussian(1 / (gaussian.separation(plain) or math.inf), interval))
    for event, count in rest.items():
        part = _grid(event, adjacency, interval)
        total = total.compose(part.self_compose(count) if count > 1 else part)
    return total


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


def _interval(rest: History, plain: History, scale: float) -> float:
    finest = FINEST * max(1.0, scale / 5)
    width = sum(_width(event) for event in rest) + (
        _width(GaussianDpEvent(1 / mu)) if (mu := gaussian.separation(plain)) else 0
    )
    interval = max(finest, width / _POINTS)
    if interval > COARSEST * max(1.0, scale / 5) or len(rest) > _DIFFERENT:
        raise TooSlow(f"{len(rest)} different events need too many grid points")
    return interval


@singledispatch
def _width(event: DpEvent) -> float:
    raise UnknownEvent(f"no loss distribution is known for the event {describe(event)}")


@_width.register
def _(event: GaussianDpEvent) -> float:
    z = event.noise_multiplier
    return float(20 / z + 1 / z**2)


@_width.register
def _(event: LaplaceDpEvent) -> float:
    require_positive("noise_multiplier", event.noise_multiplier)
    return float(2 / event.noise_multiplier)


@_width.register
def _(event: PoissonSampledDpEvent) -> float:
    # log(1 − q + q·e^w) for the unsampled loss w, on the side where sampling helps.
    half = _width(event.event) / 2
    return half + math.log(event.sampling_probability + math.exp(-half)) - math.log1p(-event.sampling_probability)


@singledispatch
def _grid(event: DpEvent, adjacency: Adjacency, interval: float) -> grids.PrivacyLossDistribution:
    raise UnknownEvent(f"no loss distribution is known for the event {describe(event)}")


@_grid.register
def _(event: LaplaceDpEvent, adjacency: Adjacency, interval: float) -> grids.PrivacyLossDistribution:
    return _laplace(event.noise_multiplier, interval)


@_grid.register
def _(event: PoissonSampledDpEvent, adjacency: Adjacency, interval: float) -> grids.PrivacyLossDistribution:
    q = event.sampling_probability
    match event.event:
        case GaussianDpEvent(noise_multiplier=z):
            return _gaussian(2 * z if adjacency == "replace" else z, interval, q, adjacency)
        case LaplaceDpEvent(noise_multiplier=z) if adjacency != "replace":
            return _laplace(z, interval, q)
    raise UnknownEvent(f"no loss distribution is known for the event {describe(event)} under adjacency {adjacency!r}")


@lru_cache(maxsize=256)
def _gaussian(
    stddev: float, interval: float, rate: float = 1.0, adjacency: Adjacency = "add_remove"
) -> grids.PrivacyLossDistribution:
    return grids.from_gaussian_mechanism(
        stddev,
        value_discretization_interval=interval,
        sampling_prob=rate,
        neighboring_relation=_RELATION[adjacency],
    )


@lru_cache(maxsize=256)
def _laplace(scale: float, interval: float, rate: float = 1.0) -> grids.PrivacyLossDistribution:
    return grids.from_laplace_mechanism(scale, value_discretization_interval=interval, sampling_prob=rate)

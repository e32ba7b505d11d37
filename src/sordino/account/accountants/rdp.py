"""What each event costs in Rényi divergence. Unknown events are refused, never guessed at."""

from __future__ import annotations

from functools import lru_cache, singledispatch

import numpy as np
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant

from sordino.account.accountants import dominate, renyi, selection
from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.history import History, flatten
from sordino.account.accountants.parameters import require_cohort, require_discrete, require_positive, require_skellam
from sordino.errors import UnknownEvent
from sordino.events import (
    BestOfMany,
    CorrelatedGaussian,
    DiscreteGaussian,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    Skellam,
    Unbounded,
    describe,
)
from sordino.types import Adjacency, FloatArray


def divergence(history: History, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    """Returns the summed divergence of a flattened history at each order: Rényi costs of a composition add up."""
    total = np.zeros_like(orders)
    for event, count in history.items():
        total = total + count * event_divergence(event, tuple(orders), adjacency)
    return total


@lru_cache(maxsize=4096)
def event_divergence(event: DpEvent, orders: tuple[float, ...], adjacency: Adjacency) -> FloatArray:
    """Returns the divergence of one release at each order (remembered, since schedules repeat events)."""
    return event_cost(event, np.array(orders), adjacency)


@singledispatch
def event_cost(event: DpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    """Returns the larger direction's divergence of one release at each order; `registry.register_event` adds kinds.

    Raises:
        UnknownEvent: nothing is proved for this kind of event.
    """
    raise UnknownEvent(f"no Rényi cost is known for the event {describe(event)}: use one from sordino.events")


@event_cost.register
def _(event: Unbounded, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    return np.full_like(orders, np.inf)


@event_cost.register
def _(event: NonPrivateDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    return np.full_like(orders, np.inf)


@event_cost.register
def _(event: GaussianDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    return renyi.gaussian(event.noise_multiplier, orders)


@event_cost.register
def _(event: CorrelatedGaussian, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    return renyi.gaussian(event.noise_multiplier, orders)


@event_cost.register
def _(event: LaplaceDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    require_positive("noise_multiplier", event.noise_multiplier)
    return renyi.laplace(event.noise_multiplier, orders)


@event_cost.register
def _(event: Skellam, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    require_skellam(event)
    cost = renyi.skellam(event.variance, event.l2_sensitivity, event.l1_sensitivity, orders)
    mu = dominate.separation(event)
    return cost if mu is None else np.minimum(cost, renyi.gaussian(1 / mu, orders))


@event_cost.register
def _(event: DiscreteGaussian, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    # Canonne, Kamath, Steinke (2020), Proposition 5: whole shifts cost what the Gaussian of the same parameter does.
    require_discrete(event)
    return renyi.gaussian(event.stddev / event.l2_sensitivity, orders)


@event_cost.register
def _(event: PoissonSampledDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    q, inner = event.sampling_probability, _inner(event)
    if adjacency == "replace":
        # Both worlds hold the unit, so forgetting the coin costs at most the unsampled pair (quasi-convexity).
        return divergence(inner, orders, adjacency)
    if (mu := gaussian.separation(inner)) is not None:
        return renyi.poisson_gaussian(q, 1 / mu, orders)
    whole = renyi.whole_orders(orders)
    dominated = all(_dominates_itself(leaf) or dominate.separation(leaf) is not None for leaf in inner)
    symmetric = dominated or (sum(inner.values()) == 1 and isinstance(next(iter(inner)), Skellam))
    cost = sum((count * _pair_cost(leaf, whole, adjacency) for leaf, count in inner.items()), np.zeros_like(whole))
    return renyi.poisson_any(q, dict(zip(whole.astype(int).tolist(), cost.tolist(), strict=True)), orders, symmetric)


def _pair_cost(leaf: DpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    # The swap is an argument about one pair, so a leaf is priced by the pair that dominates it where there is one.
    mu = dominate.separation(leaf)
    return event_cost(leaf, orders, adjacency) if mu is None else renyi.gaussian(1 / mu, orders)


def _dominates_itself(leaf: DpEvent) -> bool:
    return isinstance(leaf, LaplaceDpEvent)


@event_cost.register
def _(event: SampledWithoutReplacementDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    require_cohort(event)
    mu = gaussian.separation(_inner(event))
    if mu is None:
        raise UnknownEvent(f"no Rényi cost is known for the event {describe(event)}: only Gaussians may be inside")
    rate = event.sample_size / event.source_dataset_size
    if rate == 1:
        return renyi.gaussian(1 / mu, orders) if adjacency != "add_remove" else renyi.gaussian(0.5 / mu, orders)
    if adjacency == "add_remove":
        return renyi.poisson_gaussian(rate, 0.5 / mu, orders)
    apart = 1 / mu if adjacency == "replace" else 0.5 / mu
    # With the cohorts revealed the unit's own change is all that differs: sampling never costs more than that.
    return np.minimum(
        _without_replacement(event.sample_size, event.source_dataset_size, apart, orders),
        renyi.gaussian(1 / mu, orders),
    )


def _without_replacement(cohort: int, population: int, noise_multiplier: float, orders: FloatArray) -> FloatArray:
    """Returns the bound of Wang, Balle and Kasiviswanathan (2019), Theorem 27, in its form for Gaussians."""
    inner = GaussianDpEvent(noise_multiplier)
    accountant = RdpAccountant(list(orders), NeighboringRelation.REPLACE_ONE)
    accountant.compose(SampledWithoutReplacementDpEvent(population, cohort, inner))
    return np.asarray(accountant.rdp, dtype=np.float64)


@event_cost.register
def _(event: BestOfMany, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    trial, grid = flatten(event.event), renyi.MODERN_ORDERS
    costs = divergence(trial, orders, adjacency), divergence(trial, grid, adjacency)
    return selection.divergence(orders, costs[0], grid, costs[1], event.shape, event.stop)


def _inner(event: PoissonSampledDpEvent | SampledWithoutReplacementDpEvent) -> History:
    inner = flatten(event.event)
    if any(isinstance(leaf, CorrelatedGaussian) for leaf in inner):
        raise UnknownEvent(
            "sampling does not amplify a stream whose noises are correlated in time: charge the participants unsampled"
        )
    return inner

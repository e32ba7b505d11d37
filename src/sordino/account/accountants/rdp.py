"""What each event costs in Rényi divergence. Unknown events are refused, never guessed at."""

from __future__ import annotations

import math
from functools import lru_cache, singledispatch

import numpy as np
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant

from sordino.account.accountants import renyi
from sordino.account.accountants.history import History, flatten
from sordino.errors import AccountingError, UnknownEvent
from sordino.events import (
    CorrelatedGaussian,
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
    return _cost(event, np.array(orders), adjacency)


@singledispatch
def _cost(event: DpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    raise UnknownEvent(f"no Rényi cost is known for the event {describe(event)}: use one from sordino.events")


@_cost.register
def _(event: Unbounded, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    return np.full_like(orders, np.inf)


@_cost.register
def _(event: NonPrivateDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    return np.full_like(orders, np.inf)


@_cost.register
def _(event: GaussianDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    return renyi.gaussian(event.noise_multiplier, orders)


@_cost.register
def _(event: CorrelatedGaussian, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    return renyi.gaussian(event.noise_multiplier, orders)


@_cost.register
def _(event: LaplaceDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    require_positive("noise_multiplier", event.noise_multiplier)
    return renyi.laplace(event.noise_multiplier, orders)


@_cost.register
def _(event: Skellam, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    for name in ("variance", "l2_sensitivity", "l1_sensitivity"):
        require_positive(name, getattr(event, name))
    return renyi.skellam(event.variance, event.l2_sensitivity, event.l1_sensitivity, orders)


@_cost.register
def _(event: PoissonSampledDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    q, inner = event.sampling_probability, flatten(event.event)
    if any(isinstance(leaf, CorrelatedGaussian) for leaf in inner):
        raise UnknownEvent(
            "sampling does not amplify a stream whose noises are correlated in time: charge the participants unsampled"
        )
    if adjacency == "replace":
        # Both worlds hold the unit, so forgetting the coin costs at most the unsampled pair (quasi-convexity).
        return divergence(inner, orders, adjacency)
    if len(inner) == 1 and isinstance(leaf := next(iter(inner)), GaussianDpEvent) and inner[leaf] == 1:
        return renyi.poisson_gaussian(q, leaf.noise_multiplier, orders)
    whole = renyi.whole_orders(orders)
    costs = dict(zip(whole.astype(int).tolist(), divergence(inner, whole, adjacency).tolist(), strict=True))
    return renyi.poisson_any(q, costs, orders)


@_cost.register
def _(event: SampledWithoutReplacementDpEvent, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
    if adjacency != "replace":
        raise UnknownEvent(
            f"a cohort of fixed size is amplified under adjacency 'replace' only, not {adjacency!r}: "
            "sample with Poisson coins, or charge the participants unsampled"
        )
    if not 0 < event.sample_size <= event.source_dataset_size:
        raise AccountingError(f"sample_size {event.sample_size} must lie in 1 … {event.source_dataset_size}")
    accountant = RdpAccountant(list(orders), NeighboringRelation.REPLACE_ONE)
    if not accountant.supports(event):
        raise UnknownEvent(f"no Rényi cost is known for the event {describe(event)}: only Gaussians may be inside")
    return np.asarray(accountant.compose(event).rdp, dtype=np.float64)


def require_positive(name: str, value: float) -> None:
    """Raises an AccountingError unless the value is finite and above zero."""
    if not (math.isfinite(value) and value > 0):
        raise AccountingError(f"{name} {value} must be finite and above 0")

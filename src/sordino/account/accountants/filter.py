"""Privacy filters: budgets that hold even when the noise of each release is chosen from what earlier ones showed.

Multiplying loss distributions, or minimising over Rényi orders at the end, assumes that the events were fixed
beforehand. When σ follows released values (plateau decay, online refinement) an adversary could steer it, so such a run
is admitted release by release against one number that was fixed at the start:

* `GaussianFilter`: Σ 1/z² ≤ μ², for plain Gaussians. Then everything together is μ-GDP.
* `RdpFilter`: Σ D_α ≤ B at one order α, for any event. Then everything together is (α, B)-RDP.

Formal guarantees: whoever chooses the events, and from whatever was released, a sequence that the filter admitted
entirely is (ε, δ)-private. What is certified is the filter's (ε, δ), not the price of the path that was taken.

Reference: Feldman and Zrnic (2021), "Individual privacy accounting via a Rényi filter", Theorem 4.3; Koskela, Tobaben,
Honkela (2023), "Individual privacy accounting with Gaussian differential privacy", Theorem 9.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants import rdp, renyi
from sordino.account.accountants.accountant import require_delta, require_epsilon
from sordino.account.accountants.history import History, flatten
from sordino.errors import AccountingError, UnknownEvent
from sordino.events import DpEvent
from sordino.types import Adjacency, FloatArray

_ROUNDING = 1e-12
"""Relative slack, so that a schedule calibrated to the budget is not refused for its last floating-point digit."""


class Filter(Protocol):
    """An additive cost, and the capacity that its sum must not exceed."""

    @property
    def epsilon(self) -> float:
        """The ε that it promises."""

    @property
    def delta(self) -> float:
        """The δ that it promises."""

    @property
    def name(self) -> str:
        """What the certificate calls it."""

    @property
    def capacity(self) -> float:
        """How much may be spent."""

    def cost(self, event: DpEvent | History, adjacency: Adjacency) -> float:
        """Returns what an event, or a history, takes from the capacity."""

    def lowered(self, epsilon: float) -> Self:
        """Returns the same filter for a stricter ε."""

    def promised(self, delta: float) -> float:
        """Returns the ε that the filter's capacity promises at another δ."""


def admits(filter_: Filter, history: DpEvent | History, adjacency: Adjacency = "add_remove") -> bool:
    """Returns whether the filter admits this history entirely."""
    return filter_.cost(history, adjacency) <= filter_.capacity * (1 + _ROUNDING)


@dataclass(frozen=True)
class GaussianFilter:
    """Admits plain Gaussians while Σ 1/z² ≤ μ², where μ-GDP is exactly (ε, δ)-private."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _require(self.epsilon, self.delta)

    @property
    def name(self) -> str:
        return "gaussian-filter"

    @property
    def capacity(self) -> float:
        return gaussian.separation_for(self.epsilon, self.delta) ** 2

    def cost(self, event: DpEvent | History, adjacency: Adjacency) -> float:
        mu = gaussian.separation(flatten(event))
        if mu is None:
            raise UnknownEvent(
                "a Gaussian filter takes plain Gaussians only: use an RDP filter for sampled or other noise"
            )
        return mu**2

    def lowered(self, epsilon: float) -> Self:
        return replace(self, epsilon=epsilon)

    def promised(self, delta: float) -> float:
        return gaussian.epsilon_of(math.sqrt(self.capacity), delta)


@dataclass(frozen=True)
class RdpFilter:
    """Admits any event while Σ D_α ≤ B, where (α, B)-RDP is (ε, δ)-private. The order is fixed beforehand."""

    epsilon: float
    delta: float
    order: float

    def __post_init__(self) -> None:
        _require(self.epsilon, self.delta)
        if not (math.isfinite(self.order) and self.order > 1):
            raise AccountingError(f"order {self.order} of a filter must be finite and above 1")

    @classmethod
    def planned(cls, epsilon: float, delta: float, history: History | DpEvent, adjacency: Adjacency) -> RdpFilter:
        """Returns the filter whose order lets the planned history be repeated most often."""
        _require(epsilon, delta)
        costs = rdp.divergence(flatten(history), renyi.MODERN_ORDERS, adjacency)
        room = epsilon - _conversion(renyi.MODERN_ORDERS, delta)
        share = np.where(costs > 0, room / np.maximum(costs, 1e-300), room)
        return cls(epsilon, delta, float(renyi.MODERN_ORDERS[int(np.argmax(share))]))

    @property
    def name(self) -> str:
        return f"rdp-filter (order {self.order:g})"

    @property
    def capacity(self) -> float:
        return max(0.0, self.epsilon - float(_conversion(np.array([self.order]), self.delta)[0]))

    def cost(self, event: DpEvent | History, adjacency: Adjacency) -> float:
        return float(rdp.divergence(flatten(event), np.array([self.order]), adjacency)[0])

    def lowered(self, epsilon: float) -> Self:
        return replace(self, epsilon=epsilon)

    def promised(self, delta: float) -> float:
        return max(0.0, self.capacity + float(_conversion(np.array([self.order]), delta)[0]))


@dataclass(frozen=True)
class NoFilter:
    """Where noise followed releases and no budget was fixed beforehand: admits everything and promises nothing."""

    delta: float
    epsilon: float = math.inf
    name: str = "no filter"
    capacity: float = math.inf

    def cost(self, event: DpEvent | History, adjacency: Adjacency) -> float:
        return 0.0

    def lowered(self, epsilon: float) -> Self:
        return self

    def promised(self, delta: float) -> float:
        return math.inf


def filter_for(epsilon: float, delta: float, planned: History | DpEvent, adjacency: Adjacency) -> Filter:
    """Returns the filter that loses least for releases like the planned ones."""
    if gaussian.separation(flatten(planned)) is not None:
        return GaussianFilter(epsilon, delta)
    return RdpFilter.planned(epsilon, delta, planned, adjacency)


def named(name: str, epsilon: float, delta: float) -> Filter | None:
    """Returns the filter that a certificate names, or None when the name is an accountant's."""
    if name == "gaussian-filter":
        return GaussianFilter(epsilon, delta)
    found = re.fullmatch(r"rdp-filter \(order ([0-9.e+]+)\)", name)
    return RdpFilter(epsilon, delta, float(found[1])) if found else None


def _conversion(orders: FloatArray, delta: float) -> FloatArray:
    return np.asarray(np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1), dtype=np.float64)


def _require(epsilon: float, delta: float) -> None:
    require_epsilon(epsilon)
    require_delta(delta)

"""Gaussian noise and a sum for whichever trust is asked for, so that a mechanism's idea need not care."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sordino.aggregate.plain import PlainSum
from sordino.events import GaussianDpEvent
from sordino.mechanism import Aggregator, Perturber, Prices
from sordino.mechanisms.setting import Setting
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.perturb.price import prices
from sordino.perturb.shares import GaussianShares
from sordino.types import Adjacency, Trust, Unit


@dataclass(frozen=True)
class Noise:
    """Who adds Gaussian noise, who sums, and what a release of a given noise multiplier costs."""

    perturber: Perturber
    aggregator: Aggregator
    price: Callable[[float], Prices]


def gaussian_noise(trust: Trust, unit: Unit, adjacency: Adjacency, setting: Setting, denominator: float) -> Noise:
    """Returns constant-shape Gaussian noise under this trust; sums are divided by a public denominator."""
    perturber: Perturber
    if trust == "distributed":
        perturber = GaussianShares(unit, adjacency, setting.tolerance)
    else:
        perturber = CentralGaussian(unit, adjacency) if trust == "central" else LocalGaussian(unit, adjacency)
    tolerance = setting.tolerance if trust == "distributed" else None
    price = partial(prices, unit, trust, adjacency, event=GaussianDpEvent)
    return Noise(perturber, PlainSum(denominator, tolerance), price)

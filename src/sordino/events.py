"""Privacy events: frozen descriptions of what a release does, which accountants interpret and never guess at.

We use dp_accounting's events where it has one, and our own where it has none. Every event here is hashable, so that
histories that are equal are priced once.
"""

from __future__ import annotations

import attrs
from dp_accounting.dp_event import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from sordino.types import Adjacency, Observer, Unit

__all__ = [
    "Charge",
    "ComposedDpEvent",
    "CorrelatedGaussian",
    "DpEvent",
    "GaussianDpEvent",
    "Guarantee",
    "LaplaceDpEvent",
    "NoOpDpEvent",
    "PoissonSampledDpEvent",
    "SampledWithoutReplacementDpEvent",
    "SelfComposedDpEvent",
    "Skellam",
    "Unbounded",
]


@attrs.frozen
class Unbounded(DpEvent):
    """A release that nothing bounds: its certified ε is infinite, for the reason given in words."""

    reason: str


@attrs.frozen
class Skellam(DpEvent):
    """An integer vector plus Skellam noise of the given variance on each coordinate.

    Attributes:
        variance: total variance of the noise on each coordinate of the sum.
        l2_sensitivity: L2 bound on what one unit changes, of the *rounded* integer vector.
        l1_sensitivity: L1 bound on the same.

    Reference: Agarwal, Kairouz, Liu (2021), "The Skellam Mechanism for Differentially Private Federated Learning".
    """

    variance: float
    l2_sensitivity: float
    l1_sensitivity: float


@attrs.frozen
class CorrelatedGaussian(DpEvent):
    """One participation in a stream of releases whose noises are correlated in time (fed_cad).

    Its innovation φ_t = u_t − r_t·u_{t−1} has sensitivity and fresh noise in the same proportion, so by induction over
    the released past one participation costs exactly one Gaussian of this multiplier.
    """

    noise_multiplier: float


@attrs.frozen
class Guarantee:
    """A kind of promise: whose presence is hidden, from whom, under which adjacency."""

    unit: Unit
    observer: Observer
    adjacency: Adjacency


@attrs.frozen
class Charge:
    """What one release costs every unit that pays for it, in one guarantee.

    Attributes:
        guarantee: the kind of promise that is charged.
        event: what the release does, with the selection's amplification already wrapped around it.
        payers: `participants` when only clients whose message left them pay; `eligible` when everyone who could have
            been selected pays (the price of amplification: the coin is part of the mechanism).
    """

    guarantee: Guarantee
    event: DpEvent
    payers: str = "participants"

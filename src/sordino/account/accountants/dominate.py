"""Which events cost no more than a plain Gaussian, and which Gaussian that is."""

from __future__ import annotations

from functools import singledispatch

from sordino.account.accountants import lattice
from sordino.account.accountants.parameters import require_discrete, require_skellam
from sordino.events import CorrelatedGaussian, DiscreteGaussian, DpEvent, GaussianDpEvent, Skellam


@singledispatch
def separation(event: DpEvent, times: float = 1.0) -> float | None:
    """Returns the distance of two unit Gaussians that dominate the event's pair of worlds, or None if none is proved.

    Args:
        event: what was released.
        times: how many times as large as the event says the change between the worlds is.

    Formal guarantees: whatever tells the two worlds apart tells these Gaussians apart at least as well, at every ε and
    in both directions; so also after Poisson sampling, in products over coordinates, and in adaptive composition.
    """
    return None


@separation.register
def _(event: GaussianDpEvent, times: float = 1.0) -> float | None:
    return float(times / event.noise_multiplier)


@separation.register
def _(event: CorrelatedGaussian, times: float = 1.0) -> float | None:
    return float(times / event.noise_multiplier)


@separation.register
def _(event: Skellam, times: float = 1.0) -> float | None:
    require_skellam(event)
    if event.variance > lattice.LARGEST_VARIANCE:
        return None  # nothing is proved so far out: the Rényi bound, which is close there, prices it
    return _shifted(lattice.skellam(event.variance), times * event.l2_sensitivity)


@separation.register
def _(event: DiscreteGaussian, times: float = 1.0) -> float | None:
    require_discrete(event)
    return _shifted(lattice.discrete_gaussian(event.stddev), times * event.l2_sensitivity)


def _shifted(noise: lattice.Domination, l2: float) -> float | None:
    return noise.step * l2 if l2 <= noise.reach else None

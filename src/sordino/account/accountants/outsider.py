"""What an outsider sees of local noise: a sum, in which everybody's noise hides everybody (docs/accounting.md)."""

from __future__ import annotations

from functools import singledispatch

import attrs

from sordino.errors import AccountingError
from sordino.events import (
    ComposedDpEvent,
    DiscreteGaussian,
    DpEvent,
    GaussianDpEvent,
    SelfComposedDpEvent,
    Skellam,
)
from sordino.types import Adjacency


def within_sum(event: DpEvent, noises: int, adjacency: Adjacency) -> DpEvent:
    """Returns what one client's message costs against somebody who sees only the sum of `noises` such messages.

    Args:
        event: what the message costs whoever sees it alone.
        noises: how many messages with independent noise of at least this size are in the sum for certain: the smallest
            admissible number of survivors, this client's own included, less those whose noise the observer may know.
        adjacency: the neighbouring relation.

    Formal guarantees: given who survived, both worlds add the same noises, and the sum moves as the message does. So
    Gaussian noise of multiplier z counts as z·√noises, Skellam noise with `noises` times the variance. This assumes
    that the others are honest (they add their noise and tell nobody), and that who survives does not depend on the
    protected data.

    Edge cases: under `add_remove` an absent client's noise is absent too, so nothing is credited; nor is it for
    noise that is correlated in time, Laplace noise, or anything sampled (a client's coin would decide whether its noise
    is there): the event is returned as it is, which holds since the sum is a function of the messages.
    """
    if noises < 1:
        raise AccountingError(f"a sum of {noises} noises hides nobody: it must hold at least the client's own")
    return event if adjacency == "add_remove" else _summed(event, noises)


@singledispatch
def _summed(event: DpEvent, noises: int) -> DpEvent:
    return event


@_summed.register
def _(event: GaussianDpEvent, noises: int) -> DpEvent:
    return GaussianDpEvent(event.noise_multiplier * noises**0.5)


@_summed.register
def _(event: Skellam, noises: int) -> DpEvent:
    return attrs.evolve(event, variance=event.variance * noises)


@_summed.register
def _(event: DiscreteGaussian, noises: int) -> DpEvent:
    return attrs.evolve(event, stddev=event.stddev * noises**0.5, summands=event.summands * noises)


@_summed.register
def _(event: ComposedDpEvent, noises: int) -> DpEvent:
    return ComposedDpEvent(tuple(_summed(part, noises) for part in event.events))


@_summed.register
def _(event: SelfComposedDpEvent, noises: int) -> DpEvent:
    return SelfComposedDpEvent(_summed(event.event, noises), event.count)

"""Who is charged what for a release whose noise is `noise_multiplier` times one unit's contribution."""

from __future__ import annotations

import math
from collections.abc import Callable

from sordino.account.accountants.outsider import within_sum
from sordino.errors import CompositionError
from sordino.events import DpEvent, Guarantee, PoissonSampledDpEvent, Unbounded
from sordino.mechanism import Perturber
from sordino.stages import Prices
from sordino.terms import Turn
from sordino.types import Adjacency, Trust, Unit

TRUSTED = "central trust: the server sees every contribution before noise is added"
SILENT = "a release went out without any noise"

_ROUNDING = 1e-9
"""Relative room for floating point between the noise that was asked for and the sum of its parts."""


def sampled(event: DpEvent, rate: float) -> DpEvent:
    """Returns the event over a Poisson batch of records that the client keeps secret, or over all of them."""
    return event if rate >= 1 else PoissonSampledDpEvent(rate, event)


def prices(
    unit: Unit,
    trust: Trust,
    adjacency: Adjacency,
    noise_multiplier: float,
    event: Callable[[float], DpEvent],
    visible_aborts: bool = False,
    least: int = 1,
) -> Prices:
    """Returns the price of one release for the server and for an outsider.

    **Formal guarantees**: a unit's contribution has a norm of at most `Sensitivity.norm`, so its presence (`zero_out`,
    `add_remove`) is hidden by `noise_multiplier`, and its replacement, which may move the sum by twice that, by half of
    it. Records come and go one at a time (`add_remove`), inside clients whose cohort the server knows. An outsider sees
    a function of what the server sees, so it is never charged more than the server before amplification.

    Under local trust noise comes with each message, so the noise of a sum of d coordinates tells how many took part
    (its energy is known to 1 part in √(d/2)), and who stays away adds none: neither absence (`add_remove`) nor the
    selection's coin is hidden. What a client *says* is, from an outsider by the noise of all the `least` messages that
    every sum holds (`account/accountants/outsider.py`; the others are assumed to be honest).

    With `visible_aborts` a round can fail to release, and whether it does depends on who was drawn: an outsider who
    sees that learns something of the coins, so it is promised what the server is (`zero_out`), without amplification.
    """
    if trust == "local" and unit == "client" and adjacency == "add_remove":
        raise CompositionError(
            "noise in each client's own message does not hide that the client is there: promise zero_out or replace"
        )
    halves = 2 if adjacency == "replace" else 1
    seen = Unbounded(TRUSTED) if trust == "central" else event(noise_multiplier / halves)
    if trust == "local":
        summed = within_sum(seen, least, adjacency)
        return (Guarantee(unit, "server", adjacency), seen), (Guarantee(unit, "outsider", adjacency), summed)
    hidden: Adjacency = adjacency if visible_aborts else "add_remove"
    return (
        (Guarantee(unit, "server", adjacency), seen),
        (Guarantee(unit, "outsider", hidden), event(noise_multiplier)),
    )


def realised(perturber: Perturber, turn: Turn, squared_multiplier: float) -> Prices:
    """Returns the prices of a release from the noise that was really in it.

    **Formal guarantees**: noise of the multiplier that was quoted, or of a larger one, costs what was quoted (more
    noise is never credited); less noise costs more, and settlement refuses it.
    **Edge cases**: no noise at all has no price: `Unbounded`, for the mechanism's own reason where it has one.
    """
    asked, found = turn.knobs.noise_multiplier, math.sqrt(max(0.0, squared_multiplier))
    if found >= asked * (1 - _ROUNDING):
        return perturber.price(turn.knobs, turn.round_)
    if found == 0:
        quoted = perturber.price(turn.knobs, turn.round_)
        return tuple((told, event if isinstance(event, Unbounded) else Unbounded(SILENT)) for told, event in quoted)
    return perturber.price(turn.knobs.but(noise_multiplier=found), turn.round_)

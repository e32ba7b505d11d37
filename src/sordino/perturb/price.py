"""Who is charged what for a release whose noise is `noise_multiplier` times one unit's contribution."""

from __future__ import annotations

from collections.abc import Callable

from sordino.events import DpEvent, Guarantee, PoissonSampledDpEvent, Unbounded
from sordino.mechanism import Prices
from sordino.types import Adjacency, Trust, Unit

TRUSTED = "central trust: the server sees every contribution before noise is added"


def sampled(event: DpEvent, rate: float) -> DpEvent:
    """Returns the event over a Poisson batch of records that the client keeps secret, or over all of them."""
    return event if rate >= 1 else PoissonSampledDpEvent(rate, event)


def prices(
    unit: Unit,
    trust: Trust,
    adjacency: Adjacency,
    noise_multiplier: float,
    event: Callable[[float], DpEvent],
) -> Prices:
    """Returns the price of one release for the server and for an outsider.

    **Formal guarantees**: a unit's contribution has norm at most clip_norm, so its presence (`zero_out`, `add_remove`)
    is hidden by `noise_multiplier`, and its replacement, which may move the sum by twice that, by half of it. Records
    come and go one at a time (`add_remove`), inside clients whose cohort the server knows. An outsider sees a function
    of what the server sees, so it is never charged more than the server before amplification. Under local trust the
    outsider is promised what the server is, and no more: noise comes with each message, so the noise of a sum of d
    coordinates tells how many took part (its energy is known to 1 part in √(d/2)), and who stays away adds none.
    Neither absence (`add_remove`) nor the selection's coin is hidden then; what a client says is.
    """
    halves = 2 if adjacency == "replace" else 1
    seen = Unbounded(TRUSTED) if trust == "central" else event(noise_multiplier / halves)
    if trust == "local":
        return (Guarantee(unit, "server", adjacency), seen), (Guarantee(unit, "outsider", adjacency), seen)
    return (
        (Guarantee(unit, "server", adjacency), seen),
        (Guarantee(unit, "outsider", "add_remove"), event(noise_multiplier)),
    )

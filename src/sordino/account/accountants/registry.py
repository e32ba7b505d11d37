"""New kinds of events from outside: how to write them down, and what they cost by each kind of accountant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from sordino.account.accountants import pld, rdp
from sordino.account.accountants.profile import Profile
from sordino.errors import UnknownEvent
from sordino.events import DpEvent, describe, know
from sordino.types import Adjacency, FloatArray

E = TypeVar("E", bound=DpEvent)
Renyi = Callable[[E, FloatArray, Adjacency], FloatArray]
LossReading = Callable[[E, Adjacency], Profile]


def register_event(kind: type[E], renyi: Renyi[E], losses: LossReading[E] | None = None) -> None:
    """Makes a kind of event known to the ledger, the Rényi accountants and the loss distributions.

    Args:
        kind: a frozen attrs class derived from `DpEvent`, with numbers, strings or events as fields.
        renyi: from the event, orders and adjacency to upper bounds on the Rényi divergence, both directions.
        losses: from the event and adjacency to its privacy profile; without it `pld` answers with `rdp` and says so.

    Formal guarantees: what is registered is believed. Under Poisson sampling the event is priced by the general bound
    (Zhu and Wang 2019) and by its profile, which needs no symmetry. Bounds that are NaN or negative are refused when
    they are asked for.

    Edge cases: a kind is registered once; the events of this package cannot be redefined.

    Raises:
        UnknownEvent: the kind cannot be written down, or is registered already.
    """
    if kind in rdp.event_cost.registry:
        raise UnknownEvent(f"event {kind.__name__} is registered already: a kind of event has one price")
    know(kind)

    def cost(event: E, orders: FloatArray, adjacency: Adjacency) -> FloatArray:
        found = np.asarray(renyi(event, orders, adjacency), dtype=np.float64)
        if found.shape != orders.shape or np.isnan(found).any() or (found < 0).any():
            raise UnknownEvent(f"the Rényi reading of {describe(event)} must give one number of at least 0 per order")
        return found

    rdp.event_cost.register(kind, cost)
    rdp.event_divergence.cache_clear()
    if losses is not None:
        pld.profile_of.register(kind, losses)

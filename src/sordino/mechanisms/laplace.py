"""Laplace: every client clips its update in L1 and adds Laplace noise (the comparison of the geometric paper, §V).

Unit client, trust local, adjacency zero_out (or replace). Pure ε per participation: clip_norm / scale.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip
from sordino.events import LaplaceDpEvent
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import Entry, Options, Setting
from sordino.perturb.laplace import LocalLaplace
from sordino.perturb.price import prices
from sordino.train.local import LocalSteps
from sordino.types import Adjacency


class Laplace(Options):
    """Local Laplace noise; `clip_norm` is an L1 norm and `noise_multiplier` the Laplace scale over it."""

    name: Literal["laplace"] = "laplace"
    adjacency: Adjacency = Field("zero_out", description="what a message hides: presence, or any change (`replace`)")


def compose(options: Laplace, setting: Setting) -> Mechanism:
    """Returns the composition."""
    price = partial(prices, "client", "local", options.adjacency, event=LaplaceDpEvent)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=setting.selector,
        local=LocalSteps(),
        bounder=Clip(order=1.0),
        perturber=LocalLaplace(adjacency=options.adjacency),
        aggregator=PlainSum(setting.expected),
        adapter=Steady(options.clip_norm, setting.calibrate(options, price)),
    )


ENTRY = Entry(Laplace, compose, "client", "local", "each client adds Laplace noise to its L1-clipped update")

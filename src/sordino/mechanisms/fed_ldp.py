"""Fed-LDP: every client clips its update and adds Gaussian noise before it sends it.

Unit client, trust local, adjacency zero_out (or replace, on request). Constant noise: the θ = 1 case of `geometric` and
the D = 1 case of `fed_cad`.

**Formal guarantees**: a message is one Gaussian of `noise_multiplier` (half of it under `replace`); ε is the plain
composition over the client's own participations, for server and outsider alike. Selection hides nothing here: noise
comes with every message, so the noise of the sum tells how many took part (`perturb/price.py`).
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip
from sordino.events import GaussianDpEvent
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import Entry, Options, Setting
from sordino.perturb.gaussian import LocalGaussian
from sordino.perturb.price import prices
from sordino.train.local import LocalSteps
from sordino.types import Adjacency


class FedLdp(Options):
    """Local Gaussian noise, the same in every round."""

    name: Literal["fed_ldp"] = "fed_ldp"
    adjacency: Adjacency = Field("zero_out", description="what a message hides: presence, or any change (`replace`)")


def compose(options: FedLdp, setting: Setting) -> Mechanism:
    """Returns the composition."""
    price = partial(prices, "client", "local", options.adjacency, event=GaussianDpEvent)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="local",
        selector=setting.selector,
        local=LocalSteps(),
        bounder=Clip(),
        perturber=LocalGaussian(adjacency=options.adjacency),
        aggregator=PlainSum(setting.expected),
        adapter=Steady(options.clip_norm, setting.calibrate(options, price)),
    )


ENTRY = Entry(FedLdp, compose, "client", "local", "each client adds constant Gaussian noise to its update")

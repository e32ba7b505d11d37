"""DP-FedAvg: a trusted server adds Gaussian noise to the sum of clipped updates.

Unit client, trust central, adjacency add_remove for the outsider; the server sees every update and is trusted.

**Formal guarantees**: one client moves the sum by at most clip_norm; the denominator is the expected cohort, a public
constant; Poisson selection amplifies against the outsider.
Reference: Geyer et al. (2017); McMahan et al. (2018), "Learning Differentially Private Recurrent Language Models".
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Presummed
from sordino.events import GaussianDpEvent
from sordino.mechanism import Mechanism
from sordino.mechanisms.facts import Entry, Options, Setting
from sordino.perturb.gaussian import CentralGaussian
from sordino.perturb.price import prices
from sordino.train.local import SummedSteps


class DpFedAvg(Options):
    """Central Gaussian noise, fixed clip norm."""

    name: Literal["dp_fedavg"] = "dp_fedavg"


def compose(options: DpFedAvg, setting: Setting) -> Mechanism:
    """Returns the composition."""
    price = partial(prices, "client", "central", "zero_out", event=GaussianDpEvent)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="central",
        selector=setting.selector,
        local=SummedSteps(),
        bounder=Presummed(),
        perturber=CentralGaussian(),
        aggregator=PlainSum(setting.expected),
        adapter=Steady(options.clip_norm, setting.calibrate(options, price)),
    )


ENTRY = Entry(DpFedAvg, compose, "client", "central", "a trusted server adds Gaussian noise to the clipped sum")

"""DP-SGD over a federation: per-example clipped gradients, summed with noise shares, no trusted server.

Unit record, trust distributed (or central, on request), adjacency add_remove.

**Formal guarantees**: one record more or less moves the sum of gradients by at most clip_norm, against noise of
noise_multiplier · clip_norm that the clients share out. The denominator is the expected batch, a public constant. Each
client keeps its Poisson batch secret, so `sampling_rate` amplifies against server and outsider alike. Where it is
public that no client holds more than m records, removing a whole client moves the sum by at most m · clip_norm: with m
= 1 (one image a person) the record's guarantee is the person's. Reference: Abadi et al. (2016); Kairouz et al. (2021),
"The Distributed Discrete Gaussian Mechanism".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from sordino.adapt.steady import Steady
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import PerExample
from sordino.events import DpEvent, GaussianDpEvent
from sordino.mechanism import Mechanism, Prices, Turn
from sordino.mechanisms.distributed import SharedNoise, shared_noise
from sordino.mechanisms.facts import Entry, Options, Setting
from sordino.perturb.gaussian import CentralGaussian
from sordino.perturb.price import prices, sampled
from sordino.train.local import ExampleGradients


class DpSgd(Options):
    """Noisy sums of per-example clipped gradients; the server takes the steps (see server.learning_rate)."""

    name: Literal["dp_sgd"] = "dp_sgd"
    clip_norm: float = Field(0.5, gt=0, description="bound on the gradient of one record")
    sampling_rate: float = Field(1.0, gt=0, le=1, description="probability that a record is in a round's batch")
    trust: Literal["distributed", "central"] = Field("distributed", description="who adds the noise")


@dataclass(frozen=True)
class CentralSampled(CentralGaussian):
    """A trusted server's noise over Poisson batches of records: the price carries the batch's amplification."""

    sampling_rate: float = 1.0

    def price(self, turn: Turn) -> Prices:
        return self.prices(turn.knob("noise_multiplier"))

    def prices(self, noise_multiplier: float) -> Prices:
        """Returns the price for a noise multiplier: what calibration asks for."""

        def event(z: float) -> DpEvent:
            return sampled(GaussianDpEvent(z), self.sampling_rate)

        return prices("record", "central", "add_remove", noise_multiplier, event)


def compose(options: DpSgd, setting: Setting) -> Mechanism:
    """Returns the composition."""
    records = float(setting.sizes.sum()) * setting.expected / setting.population
    noise = _noise(options, setting, records * options.sampling_rate)
    return Mechanism(
        name=options.name,
        mode=options.mode,
        unit="record",
        trust=options.trust,
        selector=setting.selector,
        local=ExampleGradients(options.sampling_rate),
        bounder=PerExample(),
        perturber=noise.perturber,
        aggregator=noise.aggregator,
        adapter=Steady(options.clip_norm, noise.multiplier),
        server_learning_rate=4.0,
    )


def _noise(options: DpSgd, setting: Setting, batch: float) -> SharedNoise:
    if options.trust == "distributed":
        return shared_noise(options, setting, "record", batch, options.sampling_rate)
    central = CentralSampled("record", sampling_rate=options.sampling_rate)
    return SharedNoise(central, PlainSum(batch), setting.calibrate(options, central.prices))


ENTRY = Entry(DpSgd, compose, "record", "distributed", "per-example clipped gradients, noise shared out over clients")

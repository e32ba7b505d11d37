"""Gaussian noise and a sum for whichever trust is asked for, so that a mechanism's idea need not care."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sordino.aggregate.plain import PlainSum
from sordino.errors import RecipeError
from sordino.mechanism import Aggregator, Perturber, Prices, Turn, scalar
from sordino.mechanisms.distributed import shared_noise
from sordino.mechanisms.facts import Options, Setting
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.random.streams import Streams
from sordino.runs.client_store import ClientStore
from sordino.types import Adjacency, Trust, Unit


@dataclass(frozen=True)
class Noise:
    """Who adds noise, and who sums."""

    perturber: Perturber
    aggregator: Aggregator
    clip_norm: float

    def price(self, noise_multiplier: float) -> Prices:
        """Returns what a release with this noise multiplier costs: what calibration asks for."""
        knobs = {"noise_multiplier": scalar(noise_multiplier), "clip_norm": scalar(self.clip_norm)}
        return self.perturber.price(Turn(0, torch.empty(0), knobs, Streams(0), ClientStore()))


def noise_for(
    trust: Trust, unit: Unit, adjacency: Adjacency, options: Options, setting: Setting, denominator: float
) -> Noise:
    """Returns noise under this trust; sums are divided by a public denominator.

    Raises:
        RecipeError: `replace` is a promise about single messages; sums hide presence.
    """
    if adjacency == "replace" and trust != "local":
        raise RecipeError(f"mechanism.adjacency is 'replace', which {trust} trust does not promise: leave it out")
    if trust == "distributed":
        # calibration is the caller's, over its own schedule: any multiplier will do here
        shared = shared_noise(options.model_copy(update={"noise_multiplier": 1.0}), setting, unit, denominator)
        return Noise(shared.perturber, shared.aggregator, options.clip_norm)
    perturber: Perturber = CentralGaussian(unit, adjacency) if trust == "central" else LocalGaussian(unit, adjacency)
    return Noise(perturber, PlainSum(denominator), options.clip_norm)

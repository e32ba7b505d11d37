"""Preparations of a recipe, composed: which sums are released before the first round, and what they leave for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sordino.account.accountants.exact import separation_for
from sordino.adapt.steady import Steady
from sordino.bound.l2 import Clip, PerExample
from sordino.errors import RecipeError
from sordino.layout import Layout
from sordino.mechanism import Bounder, Mechanism, OpeningStatistic, Preparation
from sordino.mechanisms.facts import PublicFacts
from sordino.mechanisms.noise import noise_for
from sordino.mechanisms.spec import MechanismSpec, Options
from sordino.opening.channel_moment import ChannelMoment
from sordino.opening.feature_mean import FeatureMean
from sordino.select.fixed import Everyone, FixedSize
from sordino.types import Adjacency, Unit


@dataclass(frozen=True)
class OpeningShares:
    """Shares of the budget's μ that preparations take, and the whitening's ridge."""

    feature_mean: float = 0.0
    channel_moment: float = 0.0
    ridge: float = 0.2

    @property
    def left(self) -> float:
        """Share of μ that is left for the rounds: μ² adds up."""
        return math.sqrt(1 - self.feature_mean**2 - self.channel_moment**2)


def prepare(
    shares: OpeningShares, spec: MechanismSpec, options: Options, facts: PublicFacts, shape: tuple[int, ...]
) -> tuple[PublicFacts, tuple[Preparation, ...]]:
    """Returns the preparations that are asked for, and the facts for a mechanism that leaves room for them.

    A sum that gets a share s of the budget's μ has noise of multiplier 1/(s·μ), μ from (ε, δ) exactly; what integers
    cost beside that is in its price, and calibration subtracts the price and not the share.

    Args:
        shares: what is asked for.
        spec: the mechanism.
        options: its settings: unit, trust and adjacency are the preparations' too.
        facts: public facts.
        shape: shape of a record.

    Raises:
        RecipeError: the mechanism proves nothing (faithful), or cannot leave room.
    """
    if not (shares.feature_mean or shares.channel_moment):
        return facts, ()
    if options.mode != "certified" or not spec.prepares:
        raise RecipeError(
            f"opening.feature_mean and opening.channel_moment do not go with {options.name} ({options.mode}): leave "
            "them out, or use a mechanism that calibrates constant noise, such as dp_sgd or dropout_robust"
        )
    unit = spec.unit_of(options)
    statistics: list[tuple[OpeningStatistic, float]] = []
    if shares.feature_mean:
        statistics.append((FeatureMean(shape, unit), shares.feature_mean))
    if shares.channel_moment:
        statistics.append((ChannelMoment(shape, unit, shares.ridge), shares.channel_moment))
    made = tuple(_composed(statistics, unit, spec, options, facts))
    before = tuple(price for one in made for price in one.mechanism.perturber.price(one.mechanism.adapter.start()))
    return replace(facts, before=(*facts.before, *before), left=shares.left), made


def _composed(
    statistics: list[tuple[OpeningStatistic, float]],
    unit: Unit,
    spec: MechanismSpec,
    options: Options,
    facts: PublicFacts,
) -> Iterator[Preparation]:
    trust = spec.trust_of(options)
    adjacency: Adjacency = getattr(options, "adjacency", "zero_out")
    mu = separation_for(facts.target.limit("opening.feature_mean and opening.channel_moment"), facts.target.delta)
    all_of_them = Everyone("zero_out" if isinstance(facts.selector, FixedSize) else "add_remove")
    everyone = replace(facts, selector=all_of_them)
    people = facts.records if unit == "record" else float(facts.population)
    for statistic, share in statistics:
        multiplier = 1 / (share * mu)
        name = type(statistic).__name__
        own = replace(everyone, layout=Layout((name,), ((statistic.width,),)))
        noise = noise_for(trust, unit, 1.0, own, people, adjacency, noise=multiplier)
        bounder: Bounder = PerExample() if unit == "record" else Clip()
        yield Preparation(
            statistic,
            Mechanism(
                name=name,
                mode="certified",
                unit=unit,
                trust=trust,
                selector=all_of_them,
                local=statistic,
                bounder=bounder,
                perturber=noise.perturber,
                aggregator=noise.aggregator,
                adapter=Steady(1.0, multiplier),
            ),
        )

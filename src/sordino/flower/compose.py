"""From settings to a mechanism: the same parts, prices and calibration that `sordino run` uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sordino.account.accountants.target import PrivacyTarget
from sordino.bound.l2 import Clip
from sordino.flower.settings import FlowerSettings
from sordino.layout import Layout
from sordino.mechanism import Mechanism, Selector
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.facts import PublicFacts, likely_participations
from sordino.select.fixed import Everyone, FixedSize
from sordino.select.poisson import Poisson
from sordino.train.settings import LocalTraining


def composed(settings: FlowerSettings, layout: Layout, rounds: int) -> Mechanism:
    """Returns the mechanism that the settings ask for, calibrated to the budget.

    **Formal guarantees**: those of `dp_fedavg`, `dp_fedavg_adaptive` (central trust) and `fed_ldp` (local trust), whose
    perturber, selector, price and calibration these are. Updates come one row a client, so each is clipped as a row.
    """
    facts = _facts(settings, layout, rounds)
    name = "fed_ldp" if settings.trust == "local" else _CENTRAL[settings.clipping]
    told: dict[str, Any] = {"clip_norm": settings.clip_norm, "noise_multiplier": settings.noise_multiplier}
    if name == "fed_ldp":
        told["adjacency"] = settings.adjacency
    if name == "dp_fedavg_adaptive":
        told |= {"quantile": settings.quantile, "quantile_rate": settings.quantile_rate}
    spec = MECHANISMS[name]
    return replace(spec.compose(spec.options(**told), facts), bounder=Clip())


_CENTRAL = {"fixed": "dp_fedavg", "adaptive": "dp_fedavg_adaptive"}


def _selector(settings: FlowerSettings) -> Selector:
    if settings.rate is not None:
        return Poisson(settings.rate)
    if settings.cohort is not None:
        return FixedSize(settings.cohort, settings.population, blind=settings.trust != "local")
    return Everyone()


def _facts(settings: FlowerSettings, layout: Layout, rounds: int) -> PublicFacts:
    selector = _selector(settings)
    expected = selector.expected(settings.population)
    return PublicFacts(
        population=settings.population,
        records=float(settings.population),
        layout=layout,
        rounds=rounds,
        target=PrivacyTarget(settings.epsilon, settings.delta),
        selector=selector,
        tolerance=1.0,  # any number may vanish, and nobody's noise is counted on but a client's own
        participations=settings.participations or likely_participations(rounds, expected, settings.population),
        train=LocalTraining(),
    )

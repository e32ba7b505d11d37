"""auto: picks a mechanism, its schedule and settings from public facts alone (`mechanisms/choice.py`).

**Formal guarantees**: those of the mechanism that is chosen. The choice follows from declared facts and from the recipe
(population, parameters, ε, dropouts, rounds apart, weight decay, momentum): no record is looked at, so it is free.
A run, and `sordino plan --choose`, say what is chosen, and why, in three sentences.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from sordino.mechanism import Mechanism
from sordino.mechanisms.choice import Choice, Known, choose
from sordino.mechanisms.facts import PublicFacts, likely_participations
from sordino.mechanisms.geometric import contraction_of
from sordino.mechanisms.registry import MECHANISMS
from sordino.mechanisms.spec import MechanismSpec, Options
from sordino.select.poisson import Poisson
from sordino.types import Trust, Unit


class Auto(Options):
    """The best certified mechanism for the unit and the trust that you name."""

    name: Literal["auto"] = "auto"
    unit: Unit = Field("client", description="whose presence is to be hidden")
    trust: Trust = Field("distributed", description="how far the server is trusted: no mechanism asks for more")
    rounds_apart: int = Field(1, ge=1, description="a client can take part once in so many rounds (central trust)")

    def idle(self) -> dict[str, str]:
        why = f"where mechanism.trust is '{self.trust}': set mechanism.trust = 'central'"
        return {} if self.trust == "central" else {"rounds_apart": why}


def choice_for(options: Auto, facts: PublicFacts) -> Choice:
    """Returns what suits the federation, with three sentences on why."""
    return choose(
        Known(
            options.unit,
            options.trust,
            facts.population,
            facts.rounds,
            facts.layout.width,
            facts.target.limit("mechanism.name to one that you choose yourself"),
            facts.target.delta,
            facts.tolerance,
            options.rounds_apart,
            contraction_of(facts),
        )
    )


def compose(options: Auto, facts: PublicFacts) -> Mechanism:
    """Returns the composition of the mechanism that is chosen."""
    chosen = choice_for(options, facts)
    spec = MECHANISMS[chosen.mechanism]
    own = {
        field: getattr(options, field)
        for field in ("clip_norm", "noise_multiplier")
        if field in options.model_fields_set
    }
    settings = spec.options.model_validate({"name": chosen.mechanism, **chosen.settings, **own})
    if chosen.sampling_rate is not None:
        selector = Poisson(chosen.sampling_rate)
        times = likely_participations(facts.rounds, selector.expected(facts.population), facts.population)
        facts = replace(facts, selector=selector, participations=times)
    return replace(spec.compose(settings, facts), why=chosen.why)


SPEC = MechanismSpec(
    Auto,
    compose,
    "client",
    "distributed",
    "picks one of the others from public facts, and says why",
)

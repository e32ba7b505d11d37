"""What a mechanism is told when it is composed: public facts of the federation, and the budget to calibrate for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sordino.account.accountants.calibrate import noise_multiplier_for
from sordino.errors import RecipeError
from sordino.events import DpEvent, Unbounded
from sordino.layout import Layout
from sordino.mechanism import Mechanism, Prices, Selector, Turn
from sordino.types import IntArray, Mode, Trust, Unit

Fidelity = Literal["exact", "masked", "full"]
"""How much of the secure sum a simulation plays: integers, masks, or the whole protocol."""


class Options(BaseModel):
    """Settings that every mechanism has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field("", description="the mechanism's name")
    mode: Mode = Field("certified", description="`certified`: provable; `faithful`: as printed in the paper")
    clip_norm: float = Field(1.0, gt=0, description="bound on what one unit contributes")
    noise_multiplier: float | None = Field(
        None, gt=0, description="noise standard deviation over clip_norm (default: calibrated to the budget)"
    )


@dataclass(frozen=True)
class Budget:
    """What may be spent."""

    epsilon: float | None
    delta: float
    accountant: str = "pld"


@dataclass(frozen=True)
class Setting:
    """Public facts that a composition needs."""

    population: int
    sizes: IntArray
    layout: Layout
    rounds: int
    budget: Budget
    selector: Selector
    tolerance: float
    participations: int
    """How often the noise must suffice for one client, when cohorts are drawn."""
    secure: bool = False
    """Whether messages are summed securely, as integers."""
    fidelity: Fidelity = "exact"
    corrupt: float = 0.0
    """Share of a cohort that may work with the server (secure)."""
    rounding: float = 0.01
    """Share by which rounding to integers may raise the sensitivity."""
    classes: int = 0
    public: bool = False
    """Whether there are public records to measure accuracy on."""
    train: Any = None
    """Local training settings (`train.settings.LocalTraining`)."""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def expected(self) -> float:
        """Returns the public expected size of a cohort."""
        return self.selector.expected(self.population)

    def calibrate(self, options: Options, price: Callable[[float], Prices]) -> float:
        """Returns the noise multiplier: the one that is set, or the least one that keeps every guarantee in budget."""
        if options.noise_multiplier is not None:
            return options.noise_multiplier
        if self.budget.epsilon is None:
            raise RecipeError("mechanism.noise_multiplier and budget.epsilon are both missing: set one of them")
        return max(
            noise_multiplier_for(self.budget.epsilon, self.budget.delta, history, adjacency=adjacency)
            for history, adjacency in self._histories(price)
        )

    def _histories(self, price: Callable[[float], Prices]) -> list[tuple[Callable[[float], dict[DpEvent, int]], Any]]:
        """Returns, for each bounded guarantee, the history of the worst client as a function of the multiplier."""
        out: list[tuple[Callable[[float], dict[DpEvent, int]], Any]] = []
        for place, (guarantee, event) in enumerate(price(1.0)):
            if isinstance(event, Unbounded):
                continue
            payers = self.selector.charge(guarantee, event).payers
            count = self.rounds if payers == "eligible" else self.participations

            def history(z: float, place: int = place, count: int = count) -> dict[DpEvent, int]:
                return {self.selector.charge(*price(z)[place]).event: count}

            out.append((history, guarantee.adjacency))
        return out


def likely_participations(rounds: int, expected: float, population: int) -> int:
    """Returns a number of participations that few clients exceed: mean + 3 standard deviations of a binomial."""
    rate = min(1.0, expected / population)
    mean = rounds * rate
    return min(rounds, max(1, math.ceil(mean + 3 * math.sqrt(mean * (1 - rate)))))


@dataclass(frozen=True)
class Entry:
    """A mechanism of the registry."""

    options: type[Options]
    compose: Callable[[Any, Setting], Mechanism]
    unit: Unit
    trust: Trust
    summary: str
    paper: str = ""


__all__ = ["Budget", "Entry", "Fidelity", "Options", "Setting", "Turn", "likely_participations"]

"""What a mechanism's file brings: settings, composition, and everything that is told or checked about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sordino.charts import ChartMaker
from sordino.mechanism import Mechanism
from sordino.types import Adjacency, Mode, Trust, Unit

SHORTEST, LEAST, MOST = 1e-18, 1e-9, 1e9
"""Least clip norm, least noise multiplier, and the largest of either: what follows from them can be computed with."""
RAREST = 1e-9
"""Least probability of taking part that is no mistake."""


class Options(BaseModel):
    """Settings that every mechanism has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field("", description="the mechanism's name")
    mode: Mode = Field("certified", description="`certified`: provable; `faithful`: as printed in the paper")
    clip_norm: float = Field(1.0, ge=SHORTEST, le=MOST, description="bound on what one unit contributes")
    noise_multiplier: float | None = Field(
        None,
        ge=LEAST,
        le=MOST,
        description="noise standard deviation over clip_norm (default: calibrated to the budget)",
    )

    def idle(self) -> dict[str, str]:
        """Returns which of these settings nothing would use beside the others, each with the words that say why."""
        return {}


MessageAdjacency = Annotated[
    Literal["zero_out", "replace"],
    Field(description="what a message hides: what it says, or any change (`replace`)"),
]
"""An option of mechanisms in which each message is noised by itself."""

CERTIFIED = "where mechanism.mode is 'faithful': set mechanism.mode = 'certified'"
FAITHFUL = "where mechanism.mode is 'certified': set mechanism.mode = 'faithful'"
"""Why a setting of the other mode has no effect, and which one to change."""


@dataclass(frozen=True)
class AuditCase:
    """One way in which `sordino audit --all` attacks a mechanism, and what a paper says about just these settings."""

    mode: Mode = "certified"
    settings: tuple[str, ...] = ()
    """`section.field=value`, on top of the smallest stage that there is."""
    clients: int = 4
    records: int = 2
    """Records of each client."""
    adjacency: Adjacency | None = None
    """The paper's own neighbouring relation, where it is not the mechanism's default."""
    printed: float | None = None
    """An ε that the paper prints for these settings, in place of what its formula gives."""
    trials: int | None = None


@dataclass(frozen=True)
class Variant:
    """A mechanism without one of its ideas, or in another class: who it has to beat, or where else it competes.

    `sordino compare` calls it `MECHANISM-label`; settings are `section.field=value`, on top of everybody's recipe.
    """

    label: str
    settings: tuple[str, ...]
    about: str
    """What is left out or changed, in a few words."""


@dataclass(frozen=True)
class MechanismSpec:
    """A mechanism of the registry: all that the rest of the package needs to know about it."""

    options: type[Options]
    compose: Callable[[Any, Any], Mechanism]
    """`(options, PublicFacts) → Mechanism`."""
    unit: Unit
    trust: Trust
    summary: str
    paper: str = ""
    flaw: str = ""
    """Why an attack on the published form succeeds, in a few sentences that a reader can follow."""
    audit: tuple[AuditCase, ...] = (AuditCase(),)
    prepares: bool = False
    """Whether its noise is calibrated by `facts.calibrate`, which leaves room for sums before the first round."""
    charts: tuple[ChartMaker, ...] = ()
    """Charts of its own for the report, each made from a run's numbers."""
    variants: tuple[Variant, ...] = ()
    """Forms of it that every comparison has beside it (certified)."""

    @property
    def name(self) -> str:
        """The name that recipes use."""
        return str(self.options.model_fields["name"].default)

    def unit_of(self, options: Options) -> Unit:
        """Returns whose presence it hides with these settings: as they say, or always the same."""
        unit: Unit = getattr(options, "unit", self.unit)
        return unit

    def trust_of(self, options: Options) -> Trust:
        """Returns how noise is applied with these settings: as they say, or always the same."""
        trust: Trust = getattr(options, "trust", self.trust)
        return trust

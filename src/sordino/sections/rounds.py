"""How many rounds there are, who is asked in one, who vanishes, and how messages are summed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sordino.sections.section import MANY, Section


class RunSection(Section):
    """How long, and how often to look."""

    rounds: int = Field(40, ge=1, le=MANY, description="number of rounds")
    evaluate_every: int = Field(
        1, ge=1, description="rounds between two evaluations on the test set, and two looks at ε so far"
    )
    target: float | None = Field(None, gt=0, le=1, description="stop when test accuracy reaches this")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of everything that is random in the simulation")
    entropy: bool = Field(
        False, description="draw from the operating system instead of the seed: not repeatable, as in a deployment"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="where gradients are computed; records, weights and noise stay in ordinary memory"
    )
    notes: bool = Field(False, description="record private numbers of the simulation too (notes.npz), for plots")


class SelectSection(Section):
    """Who is asked in a round."""

    kind: Literal["everyone", "poisson", "fixed"] = Field("everyone", description="how cohorts are drawn")
    rate: float | None = Field(None, ge=1e-9, le=1, description="probability of taking part (poisson)")
    size: int | None = Field(None, ge=1, description="size of the cohort (fixed)")

    @model_validator(mode="after")
    def _needs(self) -> SelectSection:
        if self.kind == "poisson" and self.rate is None:
            raise ValueError("rate is missing: poisson selection needs select.rate, e.g. 0.1")
        if self.kind == "fixed" and self.size is None:
            raise ValueError("size is missing: fixed selection needs select.size, e.g. 10")
        for name, kind in (("rate", "poisson"), ("size", "fixed")):
            # whoever names another kind on top of a recipe means it, and need not take back what the recipe had
            if getattr(self, name) is not None and self.kind != kind and "kind" not in self.model_fields_set:
                raise ValueError(f"{name} has no effect where kind is '{self.kind}': set select.kind = '{kind}'")
        return self


class DropoutSection(Section):
    """Who vanishes during a round, and who joins late."""

    rate: float = Field(0.0, ge=0, lt=1, description="probability that a client of the cohort vanishes")
    schedule: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = Field((), description="one rate a round, instead")
    stages: tuple[Literal["train", "upload", "unmask"], ...] = Field(
        ("upload",), min_length=1, description="what a vanishing client no longer does (one is drawn for each)"
    )
    late: float = Field(0.0, ge=0, lt=1, description="share of the population that joins late")
    late_round: int = Field(1, ge=1, description="round in which they join")


class AggregateSection(Section):
    """How messages are summed."""

    kind: Literal["auto", "plain", "secure"] = Field(
        "auto",
        description="secure sum of integers with Skellam noise, plain sum (under distributed trust a float stand-in "
        "whose low bits nothing covers), or what the trust asks for: secure where it is distributed",
    )
    fidelity: Literal["exact", "masked", "full"] = Field(
        "exact", description="how much of the secure sum is played: integers, masks, or the whole protocol"
    )
    tolerance: float | None = Field(
        None, ge=0, lt=1, description="share of a cohort that may vanish (default: dropout.rate and a margin)"
    )
    corrupt: float = Field(
        0.0, ge=0, lt=0.5, description="share of a cohort that may work with the server: not counted on (secure)"
    )
    shards: int = Field(
        1,
        ge=1,
        le=1000,
        description="number of secure sums that a cohort is dealt out to, each with the whole noise, so that one bad "
        "client spoils one of them (1: a single sum, which one client can move anywhere)",
    )
    combine: Literal["trimmed_mean", "median"] = Field(
        "trimmed_mean", description="how the shards' sums are combined, coordinate by coordinate (shards)"
    )
    trim: int = Field(
        1, ge=1, description="how many of the largest and of the smallest values a trimmed mean leaves out (shards)"
    )
    rounding: float = Field(
        0.01, gt=0, le=1, description="share by which rounding to integers may raise the sensitivity (secure)"
    )

"""What may be spent, and where it is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from sordino.account.accountants.exact import LEAST_DELTA
from sordino.sections.section import Section


class BudgetSection(Section):
    """What may be spent."""

    epsilon: float | None = Field(
        1.0, gt=0, description="ε that no client may exceed, against any bounded observer (`none`: no limit)"
    )
    delta: float = Field(1e-5, ge=LEAST_DELTA, lt=1, description="δ of every guarantee")
    clients: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="stricter ε of single clients, by name (a table: alice = 0.5), or by number without names"
    )
    accountant: Literal["pld", "rdp", "exact"] = Field(
        "pld", description="how costs of releases are composed: numerically tight, by Rényi orders, or in closed form"
    )
    participations: int | None = Field(
        None, ge=1, description="rounds that the noise is calibrated for, per client (default: from the selection)"
    )
    minimum_clients: int = Field(1, ge=1, description="stop when fewer clients than this can still pay")

    @field_validator("clients", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {str(name): limit for name, limit in value.items()} if isinstance(value, Mapping) else value

    @field_validator("epsilon", mode="before")
    @classmethod
    def _no_limit(cls, value: Any) -> Any:
        return None if value == "none" else value


class LedgerSection(Section):
    """Where costs are remembered."""

    path: Path | None = Field(None, description="ledger file to share between runs (default: in the run folder)")
    federation: str | None = Field(
        None, min_length=1, description="name of the federation whose clients pay (default: the data's)"
    )
    plan: Literal["left", "whole"] = Field(
        "left",
        description="noise for what earlier releases on a shared ledger leave of the budget, or as if there were none",
    )
    witness: Path | None = Field(
        None, description="another file to which the ledger's heads are published, best out of its writers' reach"
    )

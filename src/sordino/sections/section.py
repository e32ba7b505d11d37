"""What all tables of a recipe share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

MANY = 10**7
"""More rounds, steps or classes than this are a slip of the pen, and would fill the memory first."""


class Section(BaseModel):
    """A table of a recipe: unknown names are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _nameable(cls, value: Any) -> Any:
        if any(
            "\0" in str(part) for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Path)
        ):
            raise ValueError("no file can have the character NUL in its name")
        return value

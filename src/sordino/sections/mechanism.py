"""The mechanism's table: its fields are the options of the mechanism that it names."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny
from pydantic_core import PydanticCustomError

from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.spec import Options

DEFAULT_MECHANISM = "dropout_robust"
UNKNOWN_MECHANISM = "unknown_mechanism"
"""The kind of pydantic's error where there is no mechanism of that name."""


def _mechanism_options(value: Any) -> Any:
    """Validates the mechanism's table by the options of the mechanism that it names."""
    if isinstance(value, Options):
        return value
    if not isinstance(value, dict):
        raise PydanticCustomError("model_type", "a table of settings")
    name = value.get("name", DEFAULT_MECHANISM)
    if not isinstance(name, str) or name not in MECHANISMS:
        raise PydanticCustomError(UNKNOWN_MECHANISM, "unknown mechanism", {"tag": name})
    return MECHANISMS[name].options.model_validate(value)


MechanismSection = Annotated[
    SerializeAsAny[Options],
    BeforeValidator(_mechanism_options),
    Field(description="mechanism and its own settings: see `sordino mechanisms`"),
]

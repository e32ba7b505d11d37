"""JSON that every reader takes: numbers that are not finite are null, never `NaN` or `Infinity`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(value: Any, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """Returns the value as JSON (RFC 8259)."""
    return json.dumps(finite(value), indent=indent, ensure_ascii=ensure_ascii, allow_nan=False)


def finite(value: Any) -> Any:
    """Returns the value with None for every number that is not finite."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

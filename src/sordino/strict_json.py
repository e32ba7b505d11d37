"""JSON that every reader takes: numbers that are not finite are null, never `NaN` or `Infinity`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(value: Any, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """Returns the value as JSON (RFC 8259)."""
    return json.dumps(finite(value), indent=indent, ensure_ascii=ensure_ascii, allow_nan=False)


def loads(text: str) -> Any:
    """Reads JSON that has one meaning: no name twice in an object, and no number that is not finite.

    **Formal guarantees**: of two values under one name most readers take the last, some the first, and people the one
    that they see. What is signed here can be read in one way only.

    Raises:
        ValueError: it has more than one meaning, or none.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_number)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    told = dict(pairs)
    if len(told) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return told


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no finite number")


def _number(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _no_number(text)


def finite(value: Any) -> Any:
    """Returns the value with None for every number that is not finite."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

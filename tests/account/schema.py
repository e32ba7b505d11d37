"""As much of JSON Schema (draft 7) as the registry's schema uses; an unknown keyword is an error, never passed over."""

import datetime
import json
import re
from pathlib import Path

REGISTRY = json.loads((Path(__file__).parent / "registry_schema.json").read_text())
_TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int}
_KNOWN = {"$schema", "$comment", "type", "properties", "additionalProperties", "required", "enum", "items"}
_KNOWN |= {"minItems", "minLength", "pattern", "format"}


def complaints(value, schema=REGISTRY, path=""):
    """Yields what is wrong, by path."""
    assert set(schema) <= _KNOWN and schema.get("additionalProperties", False) is False
    if isinstance(value, bool) or not isinstance(value, _TYPES[schema["type"]]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
    if schema.get("format") == "date" and not _is_date(value):
        yield f"{path}: {value!r} is no date"
    if len(value) < schema.get("minItems", schema.get("minLength", 0)) if isinstance(value, (str, list)) else False:
        yield f"{path}: too short"
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from complaints(item, schema["items"], f"{path}/{place}")
    if isinstance(value, dict) and "properties" in schema:
        yield from (f"{path}: lacks {name}" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            if name in schema["properties"]:
                yield from complaints(item, schema["properties"][name], f"{path}/{name}")
            else:
                yield f"{path}: {name} is not foreseen"


def _is_date(text):
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False

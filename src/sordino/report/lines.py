"""A line of `metrics.jsonl`, as a report needs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from sordino.runs.folder import damaged

Numbers = dict[str, float | None]


class Line(BaseModel):
    """What a report takes from a round that was played."""

    model_config = ConfigDict(strict=True)
    round: int
    cohort: int
    survivors: int
    noise_stddev: float | None
    clip_fraction: float | None
    epsilon: Numbers = {}
    knobs: Numbers = {}
    first_knobs: Numbers = {}
    seconds: dict[str, float] = {}
    loss: float | None = None
    accuracy: float | None = None
    seconds_total: float = 0.0


class Aborted(Line):
    """A round that released nothing: nobody was counted, and there was no noise."""

    aborted: str
    cohort: int = 0
    survivors: int = 0
    noise_stddev: float | None = None
    clip_fraction: float | None = None


def check(line: Mapping[str, Any], place: int, path: Path) -> None:
    """Raises a RecipeError unless a line of metrics is what a run writes for its `place`-th round."""
    try:
        told = (Aborted if "aborted" in line else Line).model_validate(line)
    except ValidationError as error:
        raise damaged(path, place, ".".join(map(str, error.errors()[0]["loc"]))) from None
    if told.round != place:
        raise damaged(path, place, f"round {told.round} is told there")

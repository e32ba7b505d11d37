"""A line of `metrics.jsonl`, as a report needs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from sordino.runs.folder import damaged

NumbersByName = dict[str, float | None]


class MetricsLine(BaseModel):
    """What a report takes from a round that was played."""

    model_config = ConfigDict(strict=True)
    round: int
    cohort: int
    survivors: int
    noise_stddev: float | None
    clip_fraction: float | None
    epsilon: NumbersByName = {}
    knobs: NumbersByName = {}
    first_knobs: NumbersByName = {}
    seconds: dict[str, float] = {}
    loss: float | None = None
    accuracy: float | None = None
    seconds_total: float = 0.0


class Aborted(MetricsLine):
    """A round that released nothing: nobody was counted, and there was no noise."""

    aborted: str
    cohort: int = 0
    survivors: int = 0
    noise_stddev: float | None = None
    clip_fraction: float | None = None


class ReleasedLine(BaseModel):
    """What a public page takes from a round; anything else in a line of `public/metrics.jsonl` is refused."""

    model_config = ConfigDict(strict=True, extra="forbid")
    round: int
    noise_stddev: float | None = None
    knobs: NumbersByName = {}
    first_knobs: NumbersByName = {}
    loss: float | None = None
    accuracy: float | None = None
    diverged: bool = False
    aborted: str = ""


def check(line: Mapping[str, Any], place: int, path: Path) -> None:
    """Raises a RecipeError unless a line of metrics is what a run writes for its `place`-th round."""
    _check(Aborted if "aborted" in line else MetricsLine, line, place, path)


def check_released(line: Mapping[str, Any], place: int, path: Path) -> None:
    """Raises a RecipeError unless a line holds what a run releases of its `place`-th round, and nothing else."""
    _check(ReleasedLine, line, place, path)


def _check(kind: type[MetricsLine] | type[ReleasedLine], line: Mapping[str, Any], place: int, path: Path) -> None:
    try:
        told = kind.model_validate(line)
    except ValidationError as error:
        raise damaged(path, place, ".".join(map(str, error.errors()[0]["loc"]))) from None
    if told.round != place:
        raise damaged(path, place, f"round {told.round} is told there")

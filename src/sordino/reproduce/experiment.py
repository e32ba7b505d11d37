"""An experiment of a paper: where it is printed, what was chosen where the paper is silent, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sordino.report.chart import Chart
from sordino.reproduce.line import Line

if TYPE_CHECKING:
    from sordino.reproduce.bench import Bench

Kind = Literal["exact", "training"]


@dataclass(frozen=True)
class Paper:
    """A paper, as it is cited."""

    short: str
    title: str
    authors: str


@dataclass(frozen=True)
class Finding:
    """What an experiment came to."""

    lines: tuple[Line, ...]
    charts: tuple[Chart, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    id: str
    paper: Paper
    place: str
    title: str
    find: Callable[[Bench], Finding] = field(repr=False)
    kind: Kind = "training"
    choices: tuple[str, ...] = ()
    """What the paper leaves out, and what we took in its place."""


def by_id(*groups: tuple[Experiment, ...]) -> Mapping[str, Experiment]:
    """Returns experiments by their id, in order."""
    return {experiment.id: experiment for group in groups for experiment in group}

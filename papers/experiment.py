"""An experiment of a paper: where it is printed, what was chosen where the paper is silent, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from papers.line import Line, joined
from sordino.report.chart import Chart

if TYPE_CHECKING:
    from papers.bench import Bench

Kind = Literal["exact", "training"]
PIXELS = (
    "How pixels are scaled is not stated: every image has its mean taken away and is divided by its deviation. Weights "
    "begin as PyTorch's do."
)
"""What all papers are silent about."""


@dataclass(frozen=True)
class Paper:
    """A paper, as it is cited."""

    short: str
    title: str
    authors: str
    verdict: str = ""
    """In a sentence or two: what can be had again, what cannot, and why."""


@dataclass(frozen=True)
class Finding:
    """What an experiment came to."""

    lines: tuple[Line, ...]
    charts: tuple[Chart, ...] = ()
    remarks: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    """Data sets that were left quick where the others are full."""


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
    doubt: str = ""
    """What may lie behind a value that differs, where nothing better is known."""
    shorter: str = "one seed"
    """What the quick form leaves out."""
    data: str = ""
    """Its data set, where that is CIFAR-10 alone, which may stay quick."""
    whole: str = ""
    """How big the full form is, where seeds do not tell."""

    def explained(self, line: Line, quick: bool) -> Line:
        """Returns the line with a reason, if it differs: its own, else what a quick run leaves out, and the doubt."""
        if line.status != "differs" or line.why:
            return line
        left_out = f"quick: {self.shorter}" if quick else ""
        return replace(line, why=joined(left_out, self.doubt))


def by_id(*groups: tuple[Experiment, ...]) -> Mapping[str, Experiment]:
    """Returns experiments by their id, in order."""
    return {experiment.id: experiment for group in groups for experiment in group}

"""An experiment of a paper: where it is printed, what was chosen where the paper is silent, and how it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from papers.printed_line import PrintedLine, joined
from sordino.charts import Chart

if TYPE_CHECKING:
    from papers.experiment_runner import ExperimentRunner

ExperimentKind = Literal["exact", "training"]
PIXELS = (
    "How pixels are scaled is not stated: every image has its mean taken away and is divided by its deviation. Weights "
    "begin as PyTorch's do."
)
"""What all papers are silent about."""


@dataclass(frozen=True)
class Paper:
    """A paper, as it is cited."""

    short: str
    """How its ids begin."""
    page: str
    """Name of its page, and of its introduction, without the ending."""
    title: str
    authors: str
    mechanism: str
    idea: str
    """What it proposes, in a few words."""
    outcome: str
    """What became of its numbers, in a few words."""


@dataclass(frozen=True)
class ExperimentResult:
    """What an experiment came to."""

    lines: tuple[PrintedLine, ...]
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
    find: Callable[[ExperimentRunner], ExperimentResult] = field(repr=False)
    kind: ExperimentKind = "training"
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
    seeds: int = 3
    """Seeds of the full form; more where results vary much."""

    recorded: bool = False
    """Whether it is judged by records and pictures of other experiments."""

    def quick_form(self, seeds: int = 1) -> str:
        """Returns what the quick form leaves out, where it has some number of seeds."""
        return self.shorter if seeds == 1 else self.shorter.replace("one seed", f"{seeds} seeds")

    def explained(self, line: PrintedLine, quick: bool, seeds: int = 1) -> PrintedLine:
        """Returns the line with a reason, if it differs: its own, else what a quick run leaves out, and the doubt."""
        if line.status != "differs" or line.why:
            return line
        left_out = f"quick: {self.quick_form(seeds)}" if quick and self.kind == "training" else ""
        return replace(line, why=joined(left_out, self.doubt))

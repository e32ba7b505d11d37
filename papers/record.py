"""Findings kept on disk, one JSON file an experiment, so that a page can be made of them whenever they were found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from papers.experiment import Experiment
from papers.experiment_runner import ExperimentRunner
from papers.planning import plan
from papers.printed_line import PrintedLine, PrintedStatus
from sordino._version import __version__
from sordino.report import static

STATUSES: tuple[PrintedStatus, ...] = get_args(PrintedStatus)


@dataclass(frozen=True)
class ExperimentRecord:
    """One experiment, as it was run."""

    id: str
    scale: str
    """`full`, `quick` or `exact`."""
    seeds: int
    seconds: float | None
    """Processor seconds of all its runs; None where nobody noted them."""
    version: str
    lines: tuple[PrintedLine, ...]
    remarks: tuple[str, ...]
    pictures: tuple[tuple[str, str], ...]
    """File name (without its ending) and title."""
    short: tuple[str, ...] = ()
    """Data sets that were left quick where the others are full."""

    def size(self) -> str:
        """Returns how big it was run, in a few words."""
        if self.scale == "exact":
            return "exact"
        quick = f", quick on {', '.join(self.short)}" if self.short else ""
        return f"{self.scale}{quick}, {'one seed' if self.seeds == 1 else f'{self.seeds} seeds'}"

    def whole(self, experiment: Experiment) -> bool:
        """Returns whether nothing is left out: neither rounds nor cases nor seeds."""
        enough = self.seeds >= experiment.seeds or self.scale == "exact" or bool(experiment.whole)
        return self.scale != "quick" and not self.short and enough

    def more_than(self, other: ExperimentRecord) -> bool:
        """Returns whether it says more than another record of the same: full beside quick, or more seeds."""
        mine, theirs = ((one.scale != "quick", one.seeds) for one in (self, other))
        return mine > theirs and self.scale != "exact"

    def tally(self) -> str:
        """Returns how many lines have which status."""
        counts = Counter(line.status for line in self.lines)
        return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])

    def to_json(self) -> dict[str, Any]:
        """Returns the record as plain data."""
        return asdict(self)


def run(experiment: Experiment, runner: ExperimentRunner, out: Path, again: bool = False) -> ExperimentRecord:
    """Plays what the store has not of an experiment, judges it, draws its pictures, and writes the record.

    With `again`, what other sources played is played anew.
    """
    runner = replace(runner.on(experiment.data), usual_seeds=experiment.seeds)
    if experiment.kind == "training":
        runner.do(plan(experiment, runner), again)  # all at once: an experiment asks for one part after the other
    found = experiment.find(runner)
    for chart in found.charts:
        static.save(chart, out / "pictures")
    record = ExperimentRecord(
        experiment.id,
        experiment.kind if experiment.kind == "exact" else runner.size("full", "quick"),
        runner.repeats,
        _spent(experiment, runner),
        __version__,
        tuple(experiment.explained(line, runner.quick, runner.repeats) for line in found.lines),
        found.remarks,
        tuple((chart.key, chart.title) for chart in found.charts),
        found.short,
    )
    write(out, record)
    return record


def _spent(experiment: Experiment, runner: ExperimentRunner) -> float | None:
    """Returns the processor seconds that all runs of an experiment took, whenever they were played."""
    if experiment.kind == "exact":
        return None
    keys = {runner.store.keys(task.what, task.recipe)[0] for task in plan(experiment, runner)}
    return round(sum(runner.store.lines[key].cpu for key in keys if key in runner.store.lines), 1)


def write(folder: Path, record: ExperimentRecord) -> None:
    """Keeps a record in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record.to_json(), indent=2, ensure_ascii=False)
    (folder / f"{record.id}.json").write_text(text + "\n", encoding="utf-8")


def kept(folder: Path, ids: Iterable[str]) -> dict[str, ExperimentRecord]:
    """Returns what a folder keeps of some experiments, in their order."""
    return {id_: read(folder / f"{id_}.json") for id_ in ids if (folder / f"{id_}.json").exists()}


def read(path: Path) -> ExperimentRecord:
    """Reads a record back."""
    fields = json.loads(path.read_text())
    lines = tuple(PrintedLine(**line) for line in fields.pop("lines"))
    pictures = tuple((key, title) for key, title in fields.pop("pictures"))
    remarks, short = tuple(fields.pop("remarks")), tuple(fields.pop("short", ()))
    return ExperimentRecord(**fields, lines=lines, pictures=pictures, remarks=remarks, short=short)

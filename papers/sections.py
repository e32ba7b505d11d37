"""One experiment as a section of its paper's page: the printed numbers beside ours, pictures, and what was chosen."""

from __future__ import annotations

from dataclasses import replace

from papers.estimates import beyond, told
from papers.experiment import Experiment
from papers.printed_line import PrintedLine, footnoted, joined
from papers.record import ExperimentRecord

_HEIGHT = 330
"""Pictures are shown so many pixels high: wide ones have letters of the same size."""
_MARKS = {
    "equal": " ✓",
    "close": " ✓",
    "undecided": " ?",
    "differs": "",
    "not reproducible as printed": "",
    "not run": "",
}


def section(record: ExperimentRecord, experiment: Experiment, takes: float | None = None) -> str:
    """Returns the section of an experiment, of which something is missing that takes some processor seconds."""
    parts = [f"### {record.id}\n", f"{experiment.title} ({experiment.place}). {_how(record, experiment, takes)}\n"]
    parts += _matrix(record, experiment) if experiment.title.startswith("Readings") else _table(record, takes)
    parts += [
        f'<img src="../img/reproduction/{key}.svg" alt="{title}" height="{_HEIGHT}">\n'
        for key, title in record.pictures
    ]
    parts += [f"{remark}\n" for remark in record.remarks]
    if experiment.choices:
        parts += ["<details><summary>Chosen where the paper is silent, or other than it is printed</summary>\n"]
        parts += [*(f"- {choice}" for choice in experiment.choices), "\n</details>\n"]
    return "\n".join(parts)


def _table(record: ExperimentRecord, takes: float | None) -> list[str]:
    """Returns one row a line; what was left out says how long it takes."""
    lines, notes = footnoted([_with_estimate(line, takes) for line in record.lines])
    rows = ["| quantity | printed | ours | status | why |", "|---|---|---|---|---|"]
    for line in lines:
        cells = (line.quantity, line.printed, line.ours, line.status, line.why)
        rows.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return [*rows, "", *(f"{note}\n" for note in notes)]


def _with_estimate(line: PrintedLine, takes: float | None) -> PrintedLine:
    estimate = f"what is missing takes {told(takes)}" if line.status == "not run" and takes is not None else ""
    return replace(line, why=joined(line.why, estimate))


def _matrix(record: ExperimentRecord, experiment: Experiment) -> list[str]:
    """Returns one row a reading and one column a printed number; the last row is the spread of all readings."""
    table: dict[str, dict[str, PrintedLine]] = {}
    for line in record.lines:
        target, _, reading = line.quantity.strip("*").partition(": ")
        table.setdefault(reading, {})[target] = line
    targets = list(dict.fromkeys(target for row in table.values() for target in row))
    first = {target: next(row[target] for row in table.values() if target in row) for target in targets}
    rows = ["| reading | " + " | ".join(_cell(target) for target in targets) + " |", "|---|" + "---|" * len(targets)]
    rows.append("| **printed** | " + " | ".join(f"**{_cell(first[target].printed)}**" for target in targets) + " |")
    for reading, row in table.items():
        cells = [_cell(row[target].ours + _MARKS[row[target].status]) if target in row else "" for target in targets]
        rows.append(f"| {_cell(reading)} | " + " | ".join(cells) + " |")
    own = dict.fromkeys(
        f"{line.quantity.strip('*').partition(': ')[2]}: {line.why}"
        for line in record.lines
        if _own(line.why, experiment)
    )
    return [
        *rows,
        "",
        "✓ close to what is printed; ? the seeds lie too far apart to tell.\n",
        *(f"- {one}" for one in own),
        "",
    ]


def _own(why: str, experiment: Experiment) -> bool:
    """Returns whether a reason says more than a tolerance, or what stands above the whole section."""
    return bool(why) and not why.startswith("within") and why != "the seeds lie too far apart to tell" and not (
        experiment.doubt and why.endswith(experiment.doubt)
    )  # fmt: skip


def _how(record: ExperimentRecord, experiment: Experiment, takes: float | None) -> str:
    """Returns how big the experiment was run, and what the rest takes."""
    rest = "" if takes is None else f" What is missing takes about {told(takes)} of one core"
    rest += ", more than two do in three hours." if takes is not None and beyond(takes) else "." if rest else ""
    few = record.seeds < experiment.seeds
    seeds = "one" if record.seeds == 1 else str(record.seeds)
    whole = experiment.whole or (f"{seeds} of {experiment.seeds} seeds" if few else f"{record.seeds} seeds")
    if record.short:
        whole += f"; quick on {', '.join(record.short)}: {experiment.quick_form(record.seeds)}"
    quick = f"Quick: {experiment.quick_form(record.seeds)}."
    return {"exact": "No training.", "full": f"Full: {whole}.", "quick": quick}[record.scale] + rest


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

"""docs/reproduction.md: every record as a section, with its pictures beside the printed numbers.

The records stand beside the page, in `reproduction/`, so that one id can be run again where the others never were.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from papers.experiment import Experiment
from papers.line import footnoted
from papers.record import STATUSES, Record, kept
from papers.record import write as keep

_INTRO = """# The five papers, run again

Made by `sordino reproduce`: every table and figure of the five papers that states numbers, as an id. The printed
parameters are the recipe, and nothing is tuned to hit a printed number; where a paper leaves one out, the value that
was taken is listed under *Chosen*. Statements without a number (“accuracy falls as C grows”) are checked as statements.

`equal`: the same to the printed digits, or the statement holds. `close`: within the tolerance that is stated.
`differs`: neither. `not reproducible as printed`: it cannot follow from what is printed, for the reason that is given.
`not run`: the quick form leaves it out, or sordino has no such mechanism, as is said there.
`quick` runs have one seed and fewer rounds, so a number that `differs` there may yet be reached, and one that is
`close` is so after fewer rounds than the paper's; `full` runs have the paper's rounds and as many seeds as they say.

    sordino reproduce --all --quick                     # every id
    sordino reproduce ID … --full --seeds N             # then those that the table below calls full, N as they say
        --quick-cifar                                   # where they say that CIFAR-10 is quick
    sordino reproduce --docs docs                       # this page: what was run now in place of what stood here

The records behind the page are in [reproduction/](reproduction/), one file an id.
"""


def write(folder: Path, found: Mapping[str, Record], shelf: Mapping[str, Experiment], pictures: Path) -> Path:
    """Writes `reproduction.md` of what was found now and before, with its records and pictures.

    What was found now takes the place of what was found before, except that a quick run never replaces a full one.

    Args:
        folder: where the page is; records go to `reproduction/`, pictures to `img/reproduction/`.
        found: the records of now, by id.
        shelf: all experiments.
        pictures: where the pictures of now are.
    """
    records, images = kept(folder / "reproduction", shelf), folder / "img" / "reproduction"
    images.mkdir(parents=True, exist_ok=True)
    for id_, record in found.items():
        if id_ in records and (records[id_].scale, record.scale) == ("full", "quick"):
            continue
        for key, _ in records[id_].pictures if id_ in records else ():
            (images / f"{key}.svg").unlink(missing_ok=True)
        for key, _ in record.pictures:
            shutil.copyfile(pictures / f"{key}.svg", images / f"{key}.svg")
        keep(folder / "reproduction", record)
        records[id_] = record
    path = folder / "reproduction.md"
    path.write_text(page([records[id_] for id_ in shelf if id_ in records], shelf), encoding="utf-8")
    return path


def page(records: Sequence[Record], shelf: Mapping[str, Experiment]) -> str:
    """Returns the page of some records."""
    parts = [_INTRO, _by_paper(records, shelf), _by_id(records, shelf)]
    paper = ""
    for record in records:
        experiment = shelf[record.id]
        if experiment.paper.short != paper:
            paper = experiment.paper.short
            parts.append(f"## {experiment.paper.authors}: {experiment.paper.title}\n")
        parts.append(_section(record, experiment))
    return "\n".join(parts)


def _by_paper(records: Sequence[Record], shelf: Mapping[str, Experiment]) -> str:
    papers = dict.fromkeys(shelf[record.id].paper for record in records)
    rows = ["| paper | ids | " + " | ".join(STATUSES) + " |", "|---|---:|" + "---:|" * len(STATUSES)]
    rows += [_counted(paper.authors, [one for one in records if shelf[one.id].paper == paper]) for paper in papers]
    rows.append(_counted("**all**", records))
    told = [f"- **{paper.authors}.** {paper.verdict}" for paper in papers if paper.verdict]
    return "\n".join(["## In short\n", *rows, "", *told, "", "## Every id\n"])


def _counted(name: str, records: Sequence[Record]) -> str:
    lines = [line for record in records for line in record.lines]
    counts = (str(sum(line.status == status for line in lines)) for status in STATUSES)
    return f"| {name} | {len(records)} | {' | '.join(counts)} |"


def _by_id(records: Sequence[Record], shelf: Mapping[str, Experiment]) -> str:
    rows = ["| id | what | run | " + " | ".join(STATUSES) + " |", "|---|---|---|" + "---:|" * len(STATUSES)]
    for record in records:
        counts = [sum(line.status == status for line in record.lines) for status in STATUSES]
        cells = " | ".join(str(count) if count else "" for count in counts)
        rows.append(f"| [{record.id}](#{record.id}) | {shelf[record.id].title} | {record.scale} | {cells} |")
    known = {record.id for record in records}
    missing = [f"`{id_}`" for id_ in shelf if id_ not in known]
    told = [f"\nNot run for this page: {', '.join(missing)}."] if missing else []
    return "\n".join([*rows, *told, ""])


def _section(record: Record, experiment: Experiment) -> str:
    parts = [f"### {record.id}\n", f"{experiment.title} ({experiment.place}). {_how(record, experiment)}\n"]
    parts += ["| quantity | printed | ours | status | why |", "|---|---|---|---|---|"]
    lines, notes = footnoted(record.lines)
    for line in lines:
        cells = (line.quantity, line.printed, line.ours, line.status, line.why)
        parts.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    parts += ["", *(f"{note}\n" for note in notes)]
    parts += [f"![{title}](img/reproduction/{key}.svg)" for key, title in record.pictures]
    parts += ["", *(f"{remark}\n" for remark in record.remarks)]
    if experiment.choices:
        parts += [
            "*Chosen where the paper is silent, or other than it is printed:*\n",
            *(f"- {choice}" for choice in experiment.choices),
            "",
        ]
    return "\n".join(parts)


def _how(record: Record, experiment: Experiment) -> str:
    """Returns how big the experiment was run."""
    whole = experiment.whole or ("one seed" if record.seeds == 1 else f"{record.seeds} seeds")
    if record.short:
        whole += f"; quick on {', '.join(record.short)}: {experiment.shorter}"
    return {"exact": "No training.", "full": f"Full: {whole}.", "quick": f"Quick: {experiment.shorter}."}[record.scale]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

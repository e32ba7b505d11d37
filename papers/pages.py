"""docs/papers/: a page for each paper and a summary, made of introductions, records and pictures, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from papers.cited import PAPERS
from papers.estimates import beyond, told
from papers.experiment import Experiment, Paper
from papers.experiment_runner import ExperimentRunner
from papers.nothing_to_run import NOTHING_TO_RUN
from papers.planning import by_seed, expected, left
from papers.printed_line import joined
from papers.quoted import quoted
from papers.record import STATUSES, ExperimentRecord, kept
from papers.record import write as keep
from papers.run_store import RunStore, merge
from papers.sections import section

ROOM = Path(__file__).parent
PICTURES = Path("img") / "reproduction"
_LEGEND = """`equal`: the same to the printed digits, or the statement holds. `close`: within the stated tolerance,
or within two standard deviations of our seeds. `undecided`: the seeds lie too far apart to tell. `differs`: none of
these. `not reproducible as printed`: it cannot follow from what is printed, for the reason that is given. `not run`:
left out, as is said there. `quick` runs have fewer rounds or cases, `full` runs the paper's; both as many seeds as they
say. One seed has no spread: what it puts less than 0.05 (5 points) from the printed number is `undecided`.
"""
_TAKES = """Processor time of one core: what other seeds of the same took, else by network and records
(`papers/estimates.py`, measured by `python -m papers.rates`); what several ids share counts for each of them. What
takes least comes first. `sordino reproduce --budget MINUTES --docs docs` plays as much as fits, seed by seed in this
order, and adds it to `papers/runs`; `sordino reproduce ID --full --docs docs` plays all of an id.
"""
_BEYOND = """**More than two cores do in three hours**, which is six hours of one: these are played last.
"""
_INTRO = f"""# The five papers, run again

Every table, figure and numbered claim of the five papers that states something to compute or to measure, as an id. The
printed parameters are the recipe, and nothing is tuned to hit a printed number. Where a paper leaves a choice open, the
value that was taken is listed under *Chosen*, and for the choices that decide a verdict a grid of *readings* was
declared in `papers/*_readings.py` before it was run; its spread stands beside the printed number.

{_LEGEND}
    sordino reproduce --list                     # every id, and what states nothing to run
    sordino reproduce --all --quick              # every id
    sordino reproduce ID … --full                # as printed: what papers/runs has not is played
    sordino reproduce --budget 60 --docs docs    # what is missing, as much as an hour brings, into papers/runs
    sordino reproduce --docs docs                # these pages, of the records in papers/records
"""


def write(docs: Path, found: Mapping[str, ExperimentRecord], experiments: Mapping[str, Experiment], out: Path) -> Path:
    """Brings runs, records and pictures up to date with what was found now, and writes every page.

    What was found now takes the place of what was found before, except that a quick run never replaces a full one, nor
    one of fewer seeds one of more. Returns the summary.

    Args:
        docs: the documentation's folder: pages go to `papers/`, pictures to `img/reproduction/`; runs and records are
            kept beside it, in `papers/runs/` and `papers/records/`.
        found: the records of now, by id.
        experiments: all experiments.
        out: where the runs and the pictures of now are.
    """
    room = docs.resolve().parent / "papers"
    records, runs = room / "records", room / "runs"
    merge(out / "runs", runs)
    before, images = kept(records, experiments), docs / PICTURES
    images.mkdir(parents=True, exist_ok=True)
    for id_, record in found.items():
        if id_ in before and before[id_].more_than(record):
            continue
        for key, _ in before[id_].pictures if id_ in before else ():
            (images / f"{key}.svg").unlink(missing_ok=True)
        for key, _ in record.pictures:
            shutil.copyfile(out / "pictures" / f"{key}.svg", images / f"{key}.svg")
        keep(records, record)
    (docs / "papers").mkdir(exist_ok=True)
    for name, text in pages(kept(records, experiments), experiments, RunStore(runs)).items():
        (docs / "papers" / name).write_text(text, encoding="utf-8")
    return docs / "papers" / "README.md"


def pages(
    records: Mapping[str, ExperimentRecord], experiments: Mapping[str, Experiment], store: RunStore
) -> dict[str, str]:
    """Returns the text of every page by its file name."""
    takes = {
        id_: left_of(one, store)
        for id_, one in experiments.items()
        if id_ not in records or not records[id_].whole(one)
    }
    together = _together([experiments[id_] for id_ in takes], store)
    own = {f"{paper.page}.md": _page(paper, records, experiments, takes) for paper in PAPERS}
    return {"README.md": _summary(records, experiments, takes, together), **own}


def left_of(experiment: Experiment, store: RunStore) -> float:
    """Returns the processor seconds of all that is missing of an experiment's full form."""
    runner = ExperimentRunner(Path(), quick=False, store=store)
    return 0.0 if experiment.kind == "exact" else left(experiment, runner)


def _of(paper: Paper, experiments: Mapping[str, Experiment]) -> list[Experiment]:
    return [experiment for experiment in experiments.values() if experiment.paper == paper]


def _together(waiting: Sequence[Experiment], store: RunStore) -> str:
    """Returns how many runs are missing in all, and what they take, those that experiments share counted once."""
    training = [experiment for experiment in waiting if experiment.kind == "training"]
    tasks = by_seed(training, ExperimentRunner(Path(), quick=False, store=store))
    return f"{len(tasks):,} runs, {told(sum(expected(task, store) for task in tasks))}"


def _summary(
    records: Mapping[str, ExperimentRecord],
    experiments: Mapping[str, Experiment],
    takes: Mapping[str, float],
    together: str,
) -> str:
    heads = ["paper", "idea, and our certified form", "in short", *STATUSES]
    rows = [f"| {' | '.join(heads)} |", "|---|---|---|" + "---:|" * len(STATUSES)]
    for paper in PAPERS:
        mine = [records[one.id] for one in _of(paper, experiments) if one.id in records]
        idea = f"{paper.idea}: [`{paper.mechanism}`](../mechanisms/{paper.mechanism}.md)"
        rows.append(f"| [{paper.authors}]({paper.page}.md) | {idea} | {paper.outcome} | {_counts(mine)} |")
    rows.append(f"| **all** | | | {_counts(list(records.values()))} |")
    return "\n".join([_INTRO, *rows, "", _waiting(records, experiments, takes, together)])


def _counts(records: Sequence[ExperimentRecord], blank: str = "0") -> str:
    lines = [line for record in records for line in record.lines]
    counts = (sum(line.status == status for line in lines) for status in STATUSES)
    return " | ".join(str(count) if count else blank for count in counts)


def _waiting(
    records: Mapping[str, ExperimentRecord],
    experiments: Mapping[str, Experiment],
    takes: Mapping[str, float],
    together: str,
) -> str:
    """Returns what is not full, or has fewer seeds than it should, with what that takes, the least first."""
    if not takes:
        return ""
    heads = ["| id | stands as | left out | what is missing takes |", "|---|---|---|---|"]
    rows: tuple[list[str], list[str]] = ([], [])
    for id_ in sorted(takes, key=lambda id_: takes[id_]):
        rows[beyond(takes[id_])].append(_open(records.get(id_), experiments[id_], takes[id_]))
    parts = ["## What is not full yet, or has fewer seeds than it should\n", _TAKES]
    parts += [*heads, *rows[0], ""] if rows[0] else []
    parts += [_BEYOND, *heads, *rows[1], ""] if rows[1] else []
    return "\n".join([*parts, f"All of it, shared runs counted once: {together}.\n"])


def _open(record: ExperimentRecord | None, experiment: Experiment, takes: float) -> str:
    """Returns the row of an id that is not whole."""
    link = f"[{experiment.id}]({experiment.paper.page}.md{f'#{experiment.id}' if record else ''})"
    stands = "nothing" if record is None else record.size()
    return f"| {link} | {stands} | {_missing(record, experiment)} | {told(takes)} |"


def _missing(record: ExperimentRecord | None, experiment: Experiment) -> str:
    """Returns what the record has not: seeds, rounds or cases."""
    enough = record is None or record.seeds >= experiment.seeds or bool(experiment.whole)
    few = "" if enough or record is None else f"seeds: {record.seeds} of {experiment.seeds}"
    short = record is None or record.scale == "quick" or record.short
    cases = (
        experiment.shorter.replace("one seed, ", "").replace(", one seed", "").replace("one seed", "") if short else ""
    )
    return joined(few, cases)


def _page(
    paper: Paper,
    records: Mapping[str, ExperimentRecord],
    experiments: Mapping[str, Experiment],
    takes: Mapping[str, float],
) -> str:
    mine = _of(paper, experiments)
    text = quoted((ROOM / "introductions" / f"{paper.page}.md").read_text(encoding="utf-8"), records)
    parts = [f"# {paper.title}\n", f"{paper.authors} · [all five papers](README.md)\n", text]
    parts += ["## Every table, figure and claim\n", _by_id(mine, records), _nothing(paper), _LEGEND]
    parts += [section(records[one.id], one, takes.get(one.id)) for one in mine if one.id in records]
    return "\n".join(parts)


def _by_id(mine: Sequence[Experiment], records: Mapping[str, ExperimentRecord]) -> str:
    rows = ["| id | where | what | run | " + " | ".join(STATUSES) + " |", "|---|---|---|---|" + "---:|" * len(STATUSES)]
    for one in mine:
        if one.id not in records:
            rows.append(f"| {one.id} | {one.place} | {one.title} | not yet |" + "  |" * len(STATUSES))
            continue
        record = records[one.id]
        rows.append(
            f"| [{one.id}](#{one.id}) | {one.place} | {one.title} | {record.size()} | {_counts([record], '')} |"
        )
    return "\n".join([*rows, ""])


def _nothing(paper: Paper) -> str:
    items = [f"{item.place} ({item.why})" for item in NOTHING_TO_RUN if item.paper == paper]
    return f"Nothing to run: {'; '.join(items)}.\n"

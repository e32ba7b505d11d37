"""`sordino reproduce`: the papers' tables and figures, run again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from sordino import strict_json
from sordino.cli.shown import terminal

if TYPE_CHECKING:
    from papers.record import ExperimentRecord

_STYLES = {
    "equal": "green",
    "close": "green",
    "undecided": "cyan",
    "differs": "yellow",
    "not reproducible as printed": "red",
    "not run": "dim",
}


def reproduce(
    ids: Annotated[list[str] | None, typer.Argument(help="tables and figures by id, or the beginning of one")] = None,
    list_: Annotated[bool, typer.Option("--list", help="list every table, figure and numbered claim")] = False,
    everything: Annotated[bool, typer.Option("--all", help="every id")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="every id that needs no training")] = False,
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="minutes, fewer seeds and rounds; or as printed")
    ] = True,
    quick_cifar: Annotated[
        bool, typer.Option("--quick-cifar", help="with --full: what is on CIFAR-10 stays quick")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="seeds of each run (default: 1 quick, 3 full)")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="runs at once (default: one a core)")] = None,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="minutes: plays what is missing of the full forms (of all ids where none is named)"),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="play again what other sources than these played")] = False,
    out: Annotated[Path, typer.Option(help="folder for runs, records and pictures; an interrupted one goes on")] = Path(
        "reproduction"
    ),
    docs: Annotated[
        Path | None, typer.Option(help="also bring runs, records and pages of papers/ beside this folder up to date")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON list on stdout")] = False,
) -> None:
    """Run the papers' tables and figures again: printed beside ours, with a verdict and its reason.

    IDS are those of --list, or the beginning of one. Finished runs are lines in papers/runs and in --out, and are not
    played twice: seeds add up over commands.
    """
    from sordino.cli.checkout import require_papers
    from sordino.cli.progress import Bar, going_on
    from sordino.errors import SordinoError

    _check(ids or [], list_, everything, exact, quick_cifar and quick and budget is None)
    _check_budget(budget, list_ or exact)
    require_papers()
    from papers.catalogue import EXPERIMENTS
    from papers.experiment_runner import ExperimentRunner
    from papers.run_store import ROOM, RunStore

    from papers import accumulate, pages, record

    if list_:
        _list(as_json)
        return
    wanted = _wanted(ids or [], everything or (budget is not None and not ids), exact, docs is not None)
    for folder in (out, docs):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    console, found, failed = terminal(stderr=True, soft_wrap=True, highlight=False), [], {}
    full = budget is not None or not quick
    cores, store = jobs or os.cpu_count() or 1, RunStore(ROOM, out / "runs")
    runner = ExperimentRunner(out / "unfinished", not full, cores, seeds, quick_cifar=quick_cifar, store=store)
    experiments = [EXPERIMENTS[id_] for id_ in wanted]
    if budget is not None:
        experiments = [experiment for experiment in experiments if experiment.kind == "training"]
        with going_on("the same command"), Bar(quiet=as_json, words="runs") as progress:
            said = accumulate.within(budget, experiments, replace(runner, watcher=progress.show), again)
        console.print(said)
    for experiment in experiments:
        with going_on("the same command"), Bar(quiet=as_json, words="runs") as progress:
            seen = replace(runner, watcher=progress.show)
            whole = accumulate.as_far_as_it_is(experiment, seen) if budget is not None else seen
            if whole is None:
                continue
            try:
                found.append(record.run(experiment, whole, out, again and budget is None))
            except SordinoError as error:
                failed[experiment.id] = str(error)
        if not as_json and experiment.id not in failed:
            _show(found[-1])
    if docs is not None:
        path = pages.write(docs, record.kept(out, EXPERIMENTS), EXPERIMENTS, out)
        if found and docs.resolve() == (ROOM.parents[1] / "docs").resolve():  # judged by what was recorded just now
            judged = {one.id: record.run(one, runner, out) for one in EXPERIMENTS.values() if one.recorded}
            pages.write(docs, judged, EXPERIMENTS, out)
        console.print(f"[bold]{path}[/]")
    if as_json:
        print(strict_json.dumps([one.to_json() for one in found], ensure_ascii=False))
    if failed:
        told = "; ".join(f"{id_}: {reason}" for id_, reason in failed.items())
        raise SordinoError(f"{len(failed)} of {len(wanted)} could not be run: {told}")


def _check(ids: Sequence[str], list_: bool, everything: bool, exact: bool, useless: bool) -> None:
    """Raises a RecipeError where options contradict each other."""
    from sordino.errors import RecipeError

    if sum((bool(ids), list_, everything, exact)) > 1:
        raise RecipeError("ids, --list, --all and --exact exclude each other: keep one of them")
    if useless:
        raise RecipeError("--quick-cifar is for --full: add that, or leave it out")


def _check_budget(budget: float | None, trains_nothing: bool) -> None:
    """Raises a RecipeError where there is nothing to spend minutes on."""
    from sordino.errors import RecipeError

    if budget is not None and trains_nothing:
        raise RecipeError("--budget is for ids that train: leave it out beside --list and --exact")
    if budget is not None and not budget < float("inf"):
        raise RecipeError(f"--budget is {budget}: name a number of minutes")


def _wanted(ids: Sequence[str], everything: bool, exact: bool, none_is_fine: bool) -> list[str]:
    from papers.catalogue import EXPERIMENTS

    from sordino.errors import RecipeError

    if everything or exact:
        return [id_ for id_, experiment in EXPERIMENTS.items() if everything or experiment.kind == "exact"]
    wanted: dict[str, None] = {}
    for asked in ids:
        matching = [asked] if asked in EXPERIMENTS else [id_ for id_ in EXPERIMENTS if id_.startswith(asked)]
        if not matching:
            raise RecipeError(f"{asked!r} is no table or figure here: `sordino reproduce --list` names them all")
        wanted |= dict.fromkeys(matching)
    if not wanted and not none_is_fine:
        raise RecipeError("nothing to reproduce: name ids, or use --all; `sordino reproduce --list` names them all")
    return list(wanted)


def _list(as_json: bool) -> None:
    from papers.catalogue import EXPERIMENTS
    from papers.nothing_to_run import NOTHING_TO_RUN

    rows = [
        {"id": e.id, "paper": e.paper.authors, "place": e.place, "title": e.title, "kind": e.kind}
        for e in EXPERIMENTS.values()
    ]
    rows += [
        {"id": "", "paper": item.paper.authors, "place": item.place, "title": item.why, "kind": "nothing to run"}
        for item in NOTHING_TO_RUN
    ]
    if as_json:
        print(strict_json.dumps(rows, ensure_ascii=False, indent=2))
        return
    table = Table("id", "paper", "place", "what", "kind", box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(row["id"], row["paper"], row["place"], row["title"], row["kind"])
    terminal(width=max(terminal().width, 110)).print(table)


def _show(record: ExperimentRecord) -> None:
    from papers.printed_line import footnoted

    table = Table("quantity", "printed", "ours", "status", box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    took = "" if record.seconds is None else f", {record.seconds:.0f} s"
    table.title = f"[bold]{record.id}[/] ({record.scale}{took}): {record.tally()}"
    lines, notes = footnoted(record.lines)
    for line in lines:
        status = f"[{_STYLES[line.status]}]{line.status}[/]"
        why = f"\n[dim]{escape(line.why)}[/]" if line.why else ""
        table.add_row(escape(line.quantity), escape(line.printed), escape(line.ours), status + why)
    console = terminal(width=max(terminal().width, 130), highlight=False)
    console.print(table)
    for note in notes:
        console.print(f"[dim]{escape(note)}[/]\n")

"""`sordino compare`: mechanisms side by side, at the same budget for the same promise."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from sordino import strict_json
from sordino.cli.idle import refuse_options
from sordino.cli.shown import sentences, shown, terminal

if TYPE_CHECKING:
    from sordino.compare.contest import Class, Trial
    from sordino.compare.standing import Standing
    from sordino.recipe import Recipe


def compare(
    contenders: Annotated[list[str] | None, typer.Argument(help="mechanisms by name, or recipes (TOML)")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="every mechanism there is")] = False,
    all_claimed: Annotated[bool, typer.Option("--all-claimed", help="every mechanism, at equal claimed ε")] = False,
    claimed: Annotated[bool, typer.Option("--claimed", help="the named ones as printed, at equal claimed ε")] = False,
    recipe: Annotated[Path | None, typer.Option(help="recipe whose data, partition, model … are everybody's")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="a setting for everybody: section.field=value")
    ] = None,
    for_: Annotated[list[str] | None, typer.Option("--for", help="a setting for one: NAME:section.field=x")] = None,
    rivals: Annotated[
        bool, typer.Option(help="bring everybody's rivals: without each idea, and what is plain in the same class")
    ] = True,
    tune: Annotated[
        bool, typer.Option(help="tune everybody alike first: the same grid, on the same stand-in data")
    ] = True,
    grid: Annotated[
        list[str] | None, typer.Option(help="values to tune, section.field=a,b,c (default: clip norm and step)")
    ] = None,
    stand_in: Annotated[
        str, typer.Option("--on", help="data to tune on: synthetic, or a public data set by name")
    ] = "synthetic",
    epsilon: Annotated[
        list[float] | None, typer.Option(help="budget; several give curves (default: the recipe's)")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="how many seeds each is run with, from run.seed on")] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="runs at once")] = 2,
    out: Annotated[Path, typer.Option(help="folder for runs, page and table; an interrupted one goes on")] = Path(
        "comparison"
    ),
    images: Annotated[bool, typer.Option(help="save every plot as SVG and PNG too")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")] = False,
) -> None:
    """Compare mechanisms on the same people, model and seeds, at the same certified (or claimed) budget.

    CONTENDERS are mechanisms by name, or recipes (TOML).
    """
    from sordino.cli.progress import Bar, going_on
    from sordino.compare import contest, following, page, playing, standing, tuning
    from sordino.compare.markdown import markdown
    from sordino.errors import RecipeError
    from sordino.files import PUBLIC, for_owner_only, replace_file
    from sordino.mechanisms import MECHANISMS
    from sordino.recipe import Recipe
    from sordino.runs.folder import RunFolder
    from sordino.tune.grid import SettingsGrid

    printed = claimed or all_claimed
    if printed or not tune:
        refuse_options(("grid", "stand_in"), "where nothing is tuned (--no-tune, or at equal claimed ε): leave it out")
    common, searched = Recipe.load(recipe, set_ or ()), SettingsGrid.parse(grid) if grid else None
    wanted = _wanted(contenders or [], list(MECHANISMS), everyone, all_claimed)
    budgets, first = _budgets(epsilon, common, set_ or []), common.run.seed
    steps = searched is not None and "server.learning_rate" in searched.values
    common, told = (common, None) if printed or steps else following.facts(common)
    field = contest.contenders(wanted, common, _own(for_ or []), printed, rivals, told is not None)
    field = following.followed(field, told, budgets) if told else field
    out.mkdir(parents=True, exist_ok=True)
    if tune and not printed:
        with going_on("the same command"), Bar(as_json, "rounds of tuning") as progress:
            best = tuning.tuned(field, common, budgets, searched, stand_in, out / "tuning", jobs, progress.show)
        field = best.contenders
    trials = contest.trials(field, budgets, range(first, first + seeds), out)
    with going_on("the same command"), Bar(quiet=as_json) as progress:
        failed = playing.play_all(trials, jobs, progress.show)
    reasons = _reasons(trials, failed)
    if len(failed) == len(trials):
        raise RecipeError(f"nothing could be played: {next(iter(reasons.values()))}")
    results = [standing.result(trial) for trial in trials if trial.folder not in failed]
    panels, top = standing.standings(results), standing.ceiling(results)
    result = page.to_json(panels, top, reasons, printed)
    target, private = out / "comparison.html", not all(RunFolder(one.trial.folder).shows_scores for one in results)
    table = markdown(panels, results, top, reasons, "plots" if images else None, private)
    with for_owner_only() if private else nullcontext():
        replace_file(out / "comparison.json", f"{strict_json.dumps(result, indent=2)}\n".encode(), PUBLIC)
        replace_file(out / "comparison.md", table.encode(), PUBLIC)
        page.write(target, common, panels, results, top, reasons, printed, out / "plots" if images else None, private)
    if as_json:
        print(strict_json.dumps(result))
    else:
        _show(panels, top, reasons, target)
        if private:
            sentences(highlight=False).print(f"[yellow]private:[/] {page.PRIVATE_SCORES}")


def _wanted(named: list[str], known: list[str], everyone: bool, all_claimed: bool) -> list[str]:
    from sordino.errors import RecipeError

    if everyone and all_claimed:
        raise RecipeError("--all is at equal certified ε and --all-claimed at equal claimed ε: choose one of them")
    if named and (everyone or all_claimed):
        raise RecipeError(f"{named[0]!r} is named beside an option for every mechanism: leave out one of the two")
    wanted = known if everyone or all_claimed else named
    if not wanted:
        raise RecipeError("nothing to compare: name mechanisms or recipes, or use --all")
    return wanted


def _budgets(epsilon: list[float] | None, common: Recipe, settings: Sequence[str]) -> list[float]:
    from sordino.errors import RecipeError

    if epsilon and any(setting.partition("=")[0].strip() == "budget.epsilon" for setting in settings):
        raise RecipeError("--epsilon and --set budget.epsilon both name the budget: leave out one of them")
    if not epsilon and common.budget.epsilon is None:
        raise RecipeError("budget.epsilon is none: name the budget that everybody has with --epsilon")
    budgets = sorted(set(epsilon or [common.budget.epsilon or 0.0]))
    if not all(0 < one < math.inf for one in budgets):
        raise RecipeError(f"--epsilon is {', '.join(f'{one:g}' for one in budgets)}: a budget is above 0 and finite")
    return budgets


def _own(settings: Sequence[str]) -> dict[str, list[str]]:
    from sordino.errors import RecipeError

    own: dict[str, list[str]] = {}
    for setting in settings:
        label, sep, rest = setting.partition(":")
        if not sep:
            raise RecipeError(f"--for {setting!r} is not of the form CONTENDER:section.field=value")
        own.setdefault(label, []).append(rest)
    return own


def _reasons(trials: Sequence[Trial], failed: Mapping[Path, str]) -> dict[str, str]:
    return {trial.contender.label: failed[trial.folder] for trial in trials if trial.folder in failed}


def _show(
    panels: Mapping[Class, Sequence[Standing]], top: float | None, failed: Mapping[str, str], target: Path
) -> None:
    from sordino.compare.page import mean_score

    console = terminal(width=max(terminal().width, 80), highlight=False)
    for kind, rows in panels.items():
        wide = _table(kind, rows)
        fits = console.measure(wide, options=console.options.update(width=sys.maxsize)).maximum <= console.width
        console.print(wide if fits else _table(kind, rows, stacked=True))
    console.soft_wrap = True
    if top is not None:
        console.print(f"without privacy (fedavg): {mean_score(top)}")
    for label, reason in failed.items():
        console.print(f"[yellow]{shown(label)} could not be played:[/] {shown(reason)}")
    console.print(f"[bold]{shown(target)}[/]")


def _table(kind: Class, rows: Sequence[Standing], stacked: bool = False) -> Table:
    """Returns the standings of a class; `stacked`, each contender has a few short lines, which fit 80 columns."""
    alone = len({row.contender.label for row in rows}) == 1
    lines = [_HEADS, *(_cells(row, alone) for row in rows)]
    if all(row.claimed is None for row in rows):
        lines = [[*cells[:3], *cells[4:]] for cells in lines]
    if stacked:
        lines = [[cells[0], *map("\n".join, (cells[1:-4], cells[-4:-2], cells[-2:]))] for cells in lines]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=kind.title, title_justify="left", leading=int(stacked))
    for head in lines[0]:
        words = head == _HEADS[0] or _HEADS[5] in head
        table.add_column(head, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for cells in lines[1:]:
        table.add_row(*cells)
    return table


_HEADS = ["contender", "budget ε", "certified ε", "claimed ε", "score", "against the best", "s", "kB/round"]


def _cells(row: Standing, alone: bool) -> list[str]:
    """Returns what stands below the heads for one contender."""
    from sordino.compare.page import score, verdict
    from sordino.report.words import number

    claimed = "–" if row.claimed is None else number(row.claimed)
    against = "alone in its class" if alone else verdict(row)
    seconds, sent = f"{row.seconds:.1f}", f"{row.bytes_sent / 1000:,.1f}"
    return [
        shown(row.contender.label), f"{row.epsilon:g}", number(row.certified), claimed, score(row), against,
        seconds, sent,
    ]  # fmt: skip

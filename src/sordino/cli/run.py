"""`sordino run`: train under a privacy budget."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from sordino import strict_json
from sordino.cli.own import DATA_HELP, MODEL_HELP, data_again, data_settings, own_data, own_model
from sordino.cli.shown import sentences, shown, terminal
from sordino.errors import SordinoWarning
from sordino.printable import counted

if TYPE_CHECKING:
    from sordino.runs.outcome import Outcome
    from sordino.runs.scores import Scores


def run(
    recipe: Annotated[Path | None, typer.Argument(help="recipe (TOML); the embedded default when left out")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="override a setting: section.field=value")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the simulation (run.seed)")] = None,
    out: Annotated[Path | None, typer.Option(help="run folder (default: a new one under runs/)")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    entropy: Annotated[
        bool, typer.Option("--entropy", help="draw from the operating system, not from the seed: cannot be repeated")
    ] = False,
    model: Annotated[str | None, typer.Option(help=MODEL_HELP)] = None,
    data: Annotated[list[str] | None, typer.Option(help=DATA_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")] = False,
) -> None:
    """Train a federated model under a privacy budget.

    RECIPE is a TOML file; without one the embedded default is trained. Exit code 3: training diverged, and the last
    good model was kept.
    """
    from sordino.cli.progress import RoundProgress, going_on
    from sordino.errors import RecipeError
    from sordino.recipe import Recipe
    from sordino.runs.beginning import fresh_folder
    from sordino.runs.folder import RunFolder
    from sordino.runs.run import run as train

    settings = list(set_ or []) + ([f"run.seed={seed}"] if seed is not None else [])
    settings += ["run.entropy=true"] if entropy else []
    settings = ([] if resume else data_settings(data)) + settings
    if resume and out is None:
        raise RecipeError("--resume needs --out: name the folder of the run to go on with")
    if resume and recipe is None and not settings and out is not None and RunFolder(out).begun:
        recipe = RunFolder(out).recipe_file
    if resume and out is not None and not RunFolder(out).begun:  # before anything is said about its data
        raise RecipeError(f"{out} holds no run that began: leave out --resume to begin one there")
    chosen = Recipe.load(recipe, settings)
    folder = out or fresh_folder(chosen)
    again = going_on(f"`sordino run --out {folder} --resume`", once=RunFolder(folder).private / "run.json")
    with again, _warnings_in_words(), RoundProgress(chosen, quiet=as_json) as progress:
        given = data_again(data, chosen) if resume else own_data(data)
        outcome = train(chosen, model=own_model(model), federation=given, out=folder, resume=resume, progress=progress)
    if as_json:
        print(strict_json.dumps(outcome.to_json()))
    else:
        _summary(outcome)
    if outcome.stopped == "diverged":
        raise typer.Exit(3)


_WIDEST = 1000
"""Columns of a terminal that shows any table."""


@contextmanager
def _warnings_in_words() -> Iterator[None]:
    """Prints sordino's warnings as plain sentences on stderr; others as Python does."""
    with warnings.catch_warnings():
        python = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if category is SordinoWarning:
                sentences(stderr=True).print(f"[bold yellow]warning:[/] {shown(message)}")
            else:
                python(message, category, *rest)

        warnings.simplefilter("always", SordinoWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _summary(outcome: Outcome) -> None:
    from sordino.cli.books import certificate
    from sordino.runs.idle import steps_in_words

    console = terminal()
    reached = "no test records" if outcome.scores is None else f"[bold]{outcome.scores.words()}[/]"
    reason = {
        "rounds": "all planned rounds",
        "budget": f"stopped by the budget: {outcome.why}",
        "target": "stopped at the target accuracy",
        "diverged": "stopped because training diverged; the last good model is kept",
    }
    took = f"after {counted(outcome.rounds, 'round')} in {outcome.seconds:.1f} s ({reason[outcome.stopped]})"
    console.print(f"\n{reached} {took}\n", soft_wrap=not console.is_terminal)
    table = _confusion(outcome.scores, outcome.context.federation.class_names)
    wide = console.options.update(width=_WIDEST)
    if table is not None and (needed := console.measure(table, options=wide).maximum) > console.width:
        console.print(f"widen the terminal to {needed} columns to see which class was taken for which\n")
    elif table is not None:
        console.print(table)
    console.print(f"{steps_in_words(outcome.context)}\n")
    console.print(certificate(outcome.document, console.width))
    folder = shown(outcome.folder)
    console.print(f"\nrun folder: {folder} (public/ may be shown to anybody, private/ to nobody)", soft_wrap=True)
    named = shown(shlex.quote(str(outcome.folder)))
    console.print(f"next: `sordino certificate {named}`, `sordino report {named}`", highlight=False, soft_wrap=True)


def _confusion(scores: Scores | None, names: Sequence[str]) -> Table | None:
    """Returns who was taken for whom, where there are few enough classes to read it; classes by name if they have."""
    from sordino.runs.scores import FEW_CLASSES

    if scores is None or scores.confusion is None or len(scores.confusion) > FEW_CLASSES:
        return None
    table = Table("class \\ taken for", box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for place in range(len(scores.confusion)):
        table.add_column(str(place), justify="right")
    for place, row in enumerate(scores.confusion):
        cells = (f"[bold]{count}[/]" if at == place else f"{count}" if count else "·" for at, count in enumerate(row))
        table.add_row(" ".join((str(place), *map(shown, names[place : place + 1]))), *cells)
    return table

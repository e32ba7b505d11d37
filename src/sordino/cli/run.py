"""`sordino run`: train under a privacy budget."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sordino.errors import SordinoWarning

if TYPE_CHECKING:
    from sordino.runs.outcome import Outcome


def run(
    recipe: Annotated[Path | None, typer.Argument(help="recipe (TOML); the embedded default when left out")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="override a setting: section.field=value")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the simulation (run.seed)")] = None,
    out: Annotated[Path | None, typer.Option(help="run folder (default: a new one under runs/)")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    entropy: Annotated[
        bool, typer.Option("--entropy", help="draw from the operating system, not from the seed: cannot be repeated")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")] = False,
) -> None:
    """Train a federated model under a privacy budget.

    RECIPE is a TOML file; without one the embedded default is trained. Exit code 3: training diverged, and the last
    good model was kept.
    """
    from sordino.cli.progress import RoundProgress, going_on
    from sordino.errors import RecipeError
    from sordino.recipe import Recipe
    from sordino.runs.folder import RunFolder
    from sordino.runs.run import fresh_folder
    from sordino.runs.run import run as train

    settings = list(set_ or []) + ([f"run.seed={seed}"] if seed is not None else [])
    settings += ["run.entropy=true"] if entropy else []
    if resume and out is None:
        raise RecipeError("--resume needs --out: name the folder of the run to go on with")
    if resume and recipe is None and not settings and out is not None and RunFolder(out).begun:
        recipe = RunFolder(out).recipe_file
    chosen = Recipe.load(recipe, settings)
    folder = out or fresh_folder(chosen)
    again = going_on(f"`sordino run --out {folder} --resume`", once=RunFolder(folder).private / "run.json")
    with again, _warnings_in_words(), RoundProgress(chosen, quiet=as_json) as progress:
        outcome = train(chosen, out=folder, resume=resume, progress=progress)
    if as_json:
        print(json.dumps(outcome.to_json()))
    else:
        _summary(outcome)
    if outcome.stopped == "diverged":
        raise typer.Exit(3)


@contextmanager
def _warnings_in_words() -> Iterator[None]:
    """Prints sordino's warnings as plain sentences on stderr; others as Python does."""
    with warnings.catch_warnings():
        python = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if category is SordinoWarning:
                Console(stderr=True, soft_wrap=True).print(f"[bold yellow]warning:[/] {escape(str(message))}")
            else:
                python(message, category, *rest)

        warnings.simplefilter("always", SordinoWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _summary(outcome: Outcome) -> None:
    from sordino.cli.books import certificate

    console = Console()
    reached = f"[bold]{outcome.accuracy:.1%}[/] test accuracy" if outcome.accuracy is not None else "no test accuracy"
    reason = {
        "rounds": "all planned rounds",
        "budget": f"stopped by the budget: {outcome.why}",
        "target": "stopped at the target accuracy",
        "diverged": "stopped because training diverged; the last good model is kept",
    }
    console.print(f"\n{reached} after {outcome.rounds} rounds in {outcome.seconds:.1f} s ({reason[outcome.stopped]})\n")
    console.print(certificate(outcome.document))
    console.print(f"\n{outcome.engine}", highlight=False, markup=False)
    console.print(f"run folder: {outcome.folder} (public/ may be shown to anybody, private/ to nobody)")

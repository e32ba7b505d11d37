"""`sordino run`: train under a privacy budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from sordino.runs.runner import Outcome


def run(
    recipe: Annotated[Path | None, typer.Argument(help="recipe (TOML); the embedded default when left out")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="override a setting: section.field=value")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the simulation (run.seed)")] = None,
    out: Annotated[Path | None, typer.Option(help="run folder (default: a new one under runs/)")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")] = False,
) -> None:
    """Train a federated model under a privacy budget.

    RECIPE is a TOML file; without one the embedded default is trained.
    """
    from sordino import recipe as recipes
    from sordino.cli.progress import RoundProgress, going_on
    from sordino.errors import RecipeError
    from sordino.runs.runner import fresh_folder
    from sordino.runs.runner import run as train

    settings = list(set_ or []) + ([f"run.seed={seed}"] if seed is not None else [])
    if resume and out is None:
        raise RecipeError("--resume needs --out: name the folder of the run to go on with")
    if resume and recipe is None and not settings and out is not None and (out / "recipe.toml").exists():
        recipe = out / "recipe.toml"
    chosen = recipes.read(recipe, settings)
    folder = out or fresh_folder(chosen)
    again = going_on(f"`sordino run --out {folder} --resume`", once=folder / "run.json")
    with again, RoundProgress(chosen, quiet=as_json) as progress:
        outcome = train(chosen, out=folder, resume=resume, watcher=progress.played)
    if as_json:
        print(json.dumps(outcome.to_json()))
    else:
        _summary(outcome)


def _summary(outcome: Outcome) -> None:
    console = Console()
    reached = f"[bold]{outcome.accuracy:.1%}[/] test accuracy" if outcome.accuracy is not None else "no test accuracy"
    reason = {
        "rounds": "all rounds played",
        "budget": f"stopped by the budget: {outcome.why}",
        "target": "stopped at the target accuracy",
    }
    console.print(f"\n{reached} after {outcome.rounds} rounds in {outcome.seconds:.1f} s ({reason[outcome.stopped]})\n")
    console.print(outcome.certificate)
    console.print(f"\nrun folder: {outcome.folder}" + ("  (simulation: seeded noise)" if outcome.simulation else ""))

"""`sordino tune`: choose settings, on stand-in data for nothing, or on the private data and charged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from sordino import strict_json
from sordino.cli.idle import refuse_options
from sordino.cli.shown import sentences, shown

if TYPE_CHECKING:
    from sordino.recipe import Recipe
    from sordino.tune.grid import SettingsGrid


def tune(
    recipe: Annotated[Path | None, typer.Argument(help="recipe (TOML); the embedded default when left out")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="override a setting: section.field=value")] = None,
    grid: Annotated[
        list[str] | None, typer.Option(help="values to try, section.field=a,b,c (default: clip norm and step)")
    ] = None,
    on: Annotated[str, typer.Option(help="data to try them on: synthetic, or a public data set by name")] = "synthetic",
    seeds: Annotated[int, typer.Option(min=1, help="seeds for each combination (stand-in data)")] = 2,
    charged: Annotated[
        bool, typer.Option("--charged", help="try them on the recipe's own data, and charge that to the ledger")
    ] = False,
    trials: Annotated[int, typer.Option(min=2, help="trials that a charged search makes, or expects")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="runs at once (stand-in data)")] = 2,
    out: Annotated[Path, typer.Option(help="folder for trials and the chosen recipe")] = Path("tuning"),
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")] = False,
) -> None:
    """Choose a recipe's settings without giving anything away, or by paying for it.

    Without --charged the grid is played on data that stand in for the private ones: nothing is spent. With --charged
    trials are made on the private data; the search's whole cost is reserved in the ledger first and stands on the
    certificate, and the best trial's model is the result.
    """
    from sordino.recipe import Recipe
    from sordino.tune.grid import SettingsGrid, usual_grid

    chosen = _settled(Recipe.load(recipe, set_ or ()), grid or [], charged)
    searched = SettingsGrid.parse(grid or usual_grid(chosen))
    if charged:
        refuse_options(("on", "seeds", "jobs"), "on a charged search, which has no stand-in data: leave it out")
        told = _charged(chosen, searched, trials, out, as_json)
    else:
        refuse_options(("trials",), "on stand-in data, where the whole grid is played: add --charged, or leave it out")
        told = _free(chosen, searched, on, range(chosen.run.seed, chosen.run.seed + seeds), jobs, out, as_json)
    if as_json:
        print(strict_json.dumps(told))
    else:
        _show(told)


def _settled(recipe: Recipe, grid: Sequence[str], charged: bool) -> Recipe:
    """Returns the recipe with what follows from its features, unless the grid searches another kind of step.

    A charged search opens with no release: that share is left out.
    """
    from sordino.runs.setup import settle

    if any(line.strip().startswith("server.learning_rate") for line in grid):
        return recipe
    alone = charged and not {"feature_mean", "channel_moment"} & recipe.opening.model_fields_set
    return settle(recipe.but(opening={"feature_mean": 0.0}) if alone else recipe).recipe


def _free(
    recipe: Recipe, grid: SettingsGrid, on: str, seeds: Sequence[int], jobs: int, out: Path, quiet: bool
) -> dict[str, Any]:
    from sordino.cli.progress import Bar, going_on
    from sordino.compare.playing import play_all
    from sordino.files import PRIVATE, PUBLIC, make_folder, replace_file
    from sordino.runs.setup import load
    from sordino.tune.grid import with_settings
    from sordino.tune.search import candidates, scored
    from sordino.tune.stand_in import stand_in

    make_folder(out, PUBLIC)
    tried = candidates(stand_in(recipe, load(recipe), on, out), grid, seeds, out / "trials")
    with going_on("the same command"), Bar(quiet, "rounds of tuning") as progress:
        failed = play_all(tried, jobs, progress.show)
    rows = scored(tried, failed)
    target = out / "chosen.toml"
    # the whole recipe, to be run: its seed, clients by name and files are nobody else's business
    replace_file(target, with_settings(recipe, rows[0].settings).to_toml().encode(), PRIVATE)
    table = [
        {"settings": list(row.settings), "score": row.mean if row.scores else None, "failed": row.failed}
        for row in rows
    ]
    cost = f"nothing: tried on {on} data, which are nobody's"
    return {"chosen": list(rows[0].settings), "recipe": str(target), "cost": cost, "table": table}


def _charged(recipe: Recipe, grid: SettingsGrid, trials: int, out: Path, quiet: bool) -> dict[str, Any]:
    from sordino.cli.progress import Bar
    from sordino.tune.charged import charged, table

    with Bar(quiet, "trials") as progress:
        found = charged(recipe, grid, trials, out, progress.show)
    promises = [
        f"ε = {entry.epsilon:.3f} for each {entry.unit} against the {entry.observer}"
        for entry in found.certificate.entries
        if entry.epsilon is not None
    ]
    return {
        "chosen": list(found.best.settings),
        "recipe": str(out / "private" / "chosen.toml"),
        "cost": f"{'; '.join(promises)}, for the search and the model together (public/certificate.json)",
        "table": table(found.attempts),
        "certificate": json.loads(found.certificate.to_json()),
        "private_table": found.best_alone,
    }


def _show(told: dict[str, Any]) -> None:
    console = sentences(highlight=False)
    table = Table("settings", "score", box=SIMPLE_HEAD, pad_edge=False)
    for row in told["table"]:
        score = row["score"]
        good = "diverged" if score is None or abs(score) == float("inf") else f"{score:.4f}"
        table.add_row(shown(", ".join(row["settings"])), shown(row.get("failed") or good))
    console.print(table)
    if "private_table" in told:
        best_alone = "The table is private: only the best trial was paid for."
        console.print(f"[yellow]{best_alone if told['private_table'] else 'Every trial was paid for.'}[/]")
    chosen, cost, recipe = (shown(text) for text in (", ".join(told["chosen"]), told["cost"], told["recipe"]))
    console.print(f"chosen: {chosen}\ncost: {cost}\n[bold]{recipe}[/]")

"""`sordino advise`: which mechanism, with which settings, and whether it can work at all."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sordino import strict_json
from sordino.cli.idle import refuse_options, refuse_others

if TYPE_CHECKING:
    from sordino.advise.advice import Advice, Situation


def advise(
    recipe: Annotated[Path | None, typer.Argument(help="recipe (TOML) to take everything from")] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="clients of the federation")] = None,
    records: Annotated[int | None, typer.Option(min=1, help="records of all clients together")] = None,
    features: Annotated[int | None, typer.Option(min=1, help="features of a record, for a linear model")] = None,
    classes: Annotated[int, typer.Option(min=0, help="classes; 0 for numbers (with --features)")] = 2,
    parameters: Annotated[int | None, typer.Option(min=1, help="parameters of the model, in place of features")] = None,
    epsilon: Annotated[float | None, typer.Option(help="budget")] = None,
    delta: Annotated[float, typer.Option(help="budget")] = 1e-5,
    trust: Annotated[Literal["local", "distributed", "central"], typer.Option(help="who adds noise")] = "distributed",
    unit: Annotated[
        Literal["record", "client"] | None, typer.Option(help="who is protected (default: clients where that works)")
    ] = None,
    dropout: Annotated[float, typer.Option(help="share of a cohort whose message does not arrive")] = 0.0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="with RECIPE: override a setting")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Recommend a mechanism and its settings, and say what to expect; nothing is trained.

    Give --clients, --records, --epsilon and --features (or --parameters), or a RECIPE, whose [public] numbers count.
    """
    from sordino.advise.advice import Situation
    from sordino.advise.advice import advise as advised
    from sordino.errors import AccountingError

    if recipe is not None:
        refuse_others(("recipe", "set_"), "beside a recipe, which says everything: change that, with --set")
        known = _from_recipe(recipe, set_ or [])
    else:
        refuse_options(("set_",), "without a recipe: name one, or leave it out")
        if parameters is not None:
            refuse_options(("features", "classes"), "beside --parameters, which counts them all: leave one of them out")
        size = parameters or (None if features is None else (features + 1) * max(1, classes))
        given = {"--clients": clients, "--records": records, "--epsilon": epsilon, "--features": size}
        missing = [name for name, value in given.items() if value is None]
        if clients is None or records is None or epsilon is None or size is None:
            raise AccountingError(f"{' and '.join(missing)} must be given (or a recipe): advice follows from them")
        numbers = 0 if classes or features is None else features
        smallest = (features or 1) * (max(1, classes) if features else 1)
        known = Situation(clients, records, size, epsilon, delta, trust, unit, dropout, numbers, smallest)
    found = advised(known)
    if as_json:
        print(strict_json.dumps({"known": asdict(known), **asdict(found), "settings": dict(found.settings)}))
    else:
        _show(found, recipe)


def _from_recipe(path: Path, settings: list[str]) -> Situation:
    """Returns what a recipe declares; its data are loaded for their shape, and nothing is measured on them."""
    from sordino.advise.advice import Situation
    from sordino.errors import RecipeError
    from sordino.recipe import Recipe
    from sordino.runs.setup import assemble

    context = assemble(Recipe.load(path, settings))
    told, budget, mechanism = context.federation.declared, context.recipe.budget, context.mechanism
    if budget.epsilon is None:
        raise RecipeError("budget.epsilon is none, and advice follows from it: set it (--set budget.epsilon=2)")
    width, lost = context.layout.width, max((context.dropout.rate, *context.recipe.dropout.schedule))
    features, classes = math.prod(context.federation.input_shape), context.federation.classes
    return Situation(
        told.people,
        told.total,
        width,
        budget.epsilon,
        budget.delta,
        mechanism.trust,
        mechanism.unit,
        lost,
        regression=0 if classes else features,
        smallest=features * max(1, classes),
        by_features=context.settled.values if context.settled else {},
    )


def _show(found: Advice, recipe: Path | None) -> None:
    from sordino.cli.shown import sentences

    console = sentences(highlight=False)
    color = "green" if found.works else "red"
    for number, sentence in enumerate(found.why):
        console.print(f"[bold {color}]{sentence}[/]" if number == 0 else f"· {sentence}")
    console.print(f"\n{found.expected}\n")
    console.print("begin with:" if found.works else "to try it nevertheless:")
    begun = "sordino run " if recipe is None else f"sordino run {recipe} "
    command = begun + " ".join(f"--set {name}={_word(value)}" for name, value in found.settings.items())
    console.print(command, soft_wrap=True)  # to be copied: one line
    if recipe is None:
        console.print("[dim](on the digits that come with it; on your own records: --data FILE, too)[/]")


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if value is False else str(value)

"""Before the first round: what a run begins or goes on with, what is refused, and the folder that holds it."""

from __future__ import annotations

import math
import secrets
import warnings
from datetime import datetime
from pathlib import Path
from typing import Literal

from torch import nn

from sordino.account.ledger.heads import HeadLog
from sordino.advise.cautions import cautions
from sordino.advise.outlook import expected, outlook
from sordino.data.federation import Federation
from sordino.errors import RecipeError, SordinoWarning
from sordino.events import Unbounded
from sordino.mechanism import Mechanism
from sordino.recipe import Recipe
from sordino.runs.books import charging_for, refuse_if_spent
from sordino.runs.context import RunContext
from sordino.runs.folder import RunFolder
from sordino.runs.idle import idle
from sordino.runs.judgement import monotonous, uneven
from sordino.runs.setup import settle
from sordino.runs.stream import stream_name
from sordino.runs.subject import GivenInPython, facts_of, keep_start, named_in, recall, refuse_own_mechanism


def require_beginning(folder: RunFolder, resume: bool) -> None:
    """Refuses to overwrite a run, and to resume what never began."""
    if folder.begun and not resume:
        raise RecipeError(f"--out {folder.path} already holds a run: add --resume, or name another folder")
    if resume and not folder.begun:
        raise RecipeError(f"{folder.path} holds no run that began: leave out --resume to begin one there")


def going_on(
    folder: RunFolder,
    recipe: Recipe,
    model: nn.Module | None,
    federation: Federation | None,
    mechanism: Mechanism | None,
) -> tuple[Recipe, nn.Module, Federation]:
    """Returns what a run goes on with: the recipe, model and data that it began with.

    Raises:
        RecipeError: one of them is another now, or has to be given again.
    """
    stored = folder.recipe()
    if model is None and federation is None and mechanism is None:
        recipe = settle(recipe).recipe
    if recipe.mechanism.noise_multiplier is None and stored.mechanism.name == recipe.mechanism.name:
        # noise that was planned with what a ledger had left stands in the stored recipe alone
        recipe = recipe.but(mechanism={"noise_multiplier": stored.mechanism.noise_multiplier})
    if recipe != stored and named_in(recipe, model, federation) != stored:
        raise RecipeError(
            f"{folder.path} was begun with another recipe: resume it without a recipe or --set, or name another --out"
        )
    if mechanism is None:
        refuse_own_mechanism(folder, "--resume")
    subject = recall(folder, model, federation)
    return stored, subject.model, subject.federation


def refuse_copy(folder: RunFolder, recipe: Recipe) -> None:
    """Refuses a copy of a run's folder, where it and the original would draw other noise and each spend the budget.

    **Edge cases**: a folder that was renamed is where it was. A seeded run's copies release the same bits, and a ledger
    outside of the folder sees both: those are let be.

    Raises:
        RecipeError: it is a copy, or was moved to another disk.
    """
    began = folder.facts().get("place")
    if recipe.run.entropy and recipe.ledger.path is None and began is not None and began != folder.place:
        raise RecipeError(
            f"{folder.path} is a copy of the folder that the run began in, with a ledger of its own, and both would "
            "spend the whole budget: go on with the original, or, if that is gone for good, remove place from "
            "private/run.json"
        )


def look_for_idle(context: RunContext, own: GivenInPython, what: Literal["refuse", "warn"]) -> None:
    """Tells of settings that have no effect.

    Raises:
        RecipeError: there are some, and they are refused.
    """
    for sentence in idle(context, own.model, own.data):
        if what == "refuse":
            raise RecipeError(sentence)
        warnings.warn(sentence, SordinoWarning, stacklevel=4)


def begin(folder: RunFolder, context: RunContext, own: GivenInPython) -> None:
    """Makes the folder of a new run, once everything that could be refused was not."""
    recipe = context.recipe
    refuse_if_spent(context)
    if recipe.ledger.witness is not None:
        HeadLog(recipe.ledger.witness).require_writable()
    if recipe.ledger.path is not None:
        with charging_for(context, recipe.ledger.path, "", witness=recipe.ledger.witness):
            pass  # a ledger that cannot be made leaves no folder behind
    folder.prepare()
    path, heads = (recipe.ledger.path, None) if recipe.ledger.path else (folder.ledger, folder.heads)
    # the ledger is there before the folder holds a run: whoever goes on with that never has to make one
    with charging_for(context, path, "", heads=heads, witness=recipe.ledger.witness) as charging:
        head, stream = charging.ledger.head, stream_name(context, charging.ledger, own)
        measured = filter(None, [monotonous(context), uneven(context)])
        for sentence in [*_slow(context), *_cautions(context), *measured, *charging.warnings]:
            warnings.warn(sentence, SordinoWarning, stacklevel=4)
    name = f"{folder.path.name}-{secrets.token_hex(4)}"
    facts = {"run": name, "simulation": not recipe.run.entropy, "head": head, "stream": stream, "place": folder.place}
    facts |= facts_of(context, own)
    if own.model:
        keep_start(folder, context.model)
    folder.create(recipe, facts)


def opening_words(context: RunContext) -> list[str]:
    """Returns what a run says before its first round: engine, why this mechanism, and what to expect of a round."""
    told, mechanism = context.federation.declared, context.mechanism
    found = outlook(mechanism, told.people, told.total, context.layout.width)
    foretold = found is not None and math.isfinite(found.signal_to_noise)
    why = [context.settled.why] if context.settled and context.settled.why else []
    why += [f"auto: {' '.join(mechanism.why)}"] if mechanism.why else []
    last = [expected(found.stddev, found.signal_to_noise, context.recipe.run.rounds)] if found and foretold else []
    return [str(context.trainer.choice), *why, *last]


def _slow(context: RunContext) -> list[str]:
    """Returns a sentence where no fast engine could take the model."""
    choice, asked = context.trainer.choice, context.recipe.train.engine
    return [f"{choice}"] if choice.engine == "loop" and asked != "loop" else []


def _cautions(context: RunContext) -> list[str]:
    """Returns what should be known before the first round, from settings and declared numbers alone."""
    told, mechanism, budget = context.federation.declared, context.mechanism, context.recipe.budget
    if all(isinstance(charge.event, Unbounded) for charge in mechanism.quote(mechanism.adapter.start())):
        return []  # nothing is promised
    found = outlook(mechanism, told.people, told.total, context.layout.width)
    return cautions(mechanism.unit, told.people, told.total, budget.epsilon, budget.delta, found)


def fresh_folder(recipe: Recipe) -> Path:
    """Returns the name of a new folder under `runs/`."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    path = Path("runs") / f"{stamp}-{recipe.mechanism.name}"
    return path if not path.exists() else path.with_name(f"{path.name}-{secrets.token_hex(2)}")

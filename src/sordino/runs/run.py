"""A run: rounds until the recipe, the budget or the target says stop; a crash loses nothing and forgets no cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from torch import nn

from sordino.data.federation import Federation
from sordino.errors import RecipeError, SordinoWarning
from sordino.mechanism import Mechanism
from sordino.mechanisms.spec import Options
from sordino.opening.feature_map import FeatureMap
from sordino.random.streams import Entropy, Streams
from sordino.recipe import Recipe
from sordino.runs.beginning import (
    begin,
    fresh_folder,
    going_on,
    look_for_idle,
    opening_words,
    refuse_copy,
    require_beginning,
)
from sordino.runs.books import charging_for
from sordino.runs.context import RunContext
from sordino.runs.folder import RunFolder
from sordino.runs.judgement import disappointment
from sordino.runs.loop import RoundWatcher, play_rounds
from sordino.runs.outcome import Outcome
from sordino.runs.progress import RoundProgress
from sordino.runs.remaining_budget import planned_with_left
from sordino.runs.scores import score
from sordino.runs.setup import assemble
from sordino.runs.statement import statement_of
from sordino.runs.subject import GivenInPython, named_in
from sordino.sections.training import ModelSection
from sordino.server.charging import Charging


def run(
    recipe: Recipe | None = None,
    *,
    model: nn.Module | Mapping[str, Any] | ModelSection | None = None,
    federation: Federation | None = None,
    mechanism: Mechanism | Mapping[str, Any] | Options | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    watcher: RoundWatcher | None = None,
    progress: bool | RoundProgress | None = None,
    idle_settings: Literal["refuse", "warn"] = "refuse",
    **sections: Any,
) -> Outcome:
    """Trains a federated model under a privacy budget.

    Args:
        recipe: what to do; the embedded default when left out, or with `resume` what the run began with.
        model: a module of your own, in place of `recipe.model` (a run that is resumed wants the same one again); or
            that section, as an object or a dictionary.
        federation: data of your own, in place of `recipe.data` and `recipe.partition`; resumed likewise.
        mechanism: a mechanism of your own, in place of `recipe.mechanism`; or that section, as a mechanism's options or
            a dictionary, such as `{"name": "dp_sgd"}`.
        out: the run folder; by default a new one under `runs/`.
        resume: go on with the run that `out` holds.
        watcher: is called with the metrics of every round.
        progress: whether to show a bar on stderr (where it is no terminal: a line now and then), and which engine
            computes gradients; by default in a terminal only.
        idle_settings: what becomes of settings that have no effect beside the others: refused, or only told of (where
            one recipe serves several mechanisms, as in `sordino compare`).
        **sections: sections of the recipe by name, as objects or dictionaries: `budget={"epsilon": 2}`.

    Raises:
        SordinoError: one sentence that names what is wrong and what to do about it; nothing is half-written.
    """
    began = time.perf_counter()
    if isinstance(mechanism, Mapping | Options):
        sections, mechanism = {**sections, "mechanism": mechanism}, None
    if isinstance(model, Mapping | ModelSection):
        sections, model = {**sections, "model": model}, None
    _require_kinds(recipe, federation, mechanism)
    if watcher is not None and not callable(watcher):
        raise RecipeError(f"watcher is {watcher!r}: give a function that takes the metrics of a round, or leave it out")
    if resume and not out:
        raise RecipeError("resume needs out: name the folder of the run to go on with")
    if recipe is None and resume and out and RunFolder(Path(out)).begun:
        recipe = RunFolder(Path(out)).recipe()
    recipe = Recipe.begin(sections) if recipe is None else recipe.but(**sections)
    folder = RunFolder(Path(out) if out else fresh_folder(recipe))
    require_beginning(folder, resume)
    if resume:
        recipe, model, federation = going_on(folder, recipe, model, federation, mechanism)
        refuse_copy(folder, recipe)
        context = assemble(recipe, model, federation, mechanism)
    else:
        context = _begun(folder, recipe, model, federation, mechanism, idle_settings)
    drawn = Entropy() if context.recipe.run.entropy else Streams(folder.facts()["stream"])
    context = replace(context, randomness=drawn)
    bar = progress if isinstance(progress, RoundProgress) else RoundProgress.wanted(context.recipe, progress)
    told = [bar.played, *([] if watcher is None else [watcher])]
    with folder.alone(), _books(context, folder) as charging, nullcontext(bar) if bar is progress else bar:
        for sentence in opening_words(context):
            bar.say(sentence)
        last, shows = play_rounds(context, folder, charging, lambda metrics: [tell(metrics) for tell in told])
        weights = context.step.published(last.here.weights, last.here.state)
        lens = FeatureMap.of(last.here.knobs)
        certificate = charging.certificate(last.stopped)
        document = charging.document(certificate, statement_of(context), last.stopped)
        folder.save_model(context.state(weights), lens)
        folder.save_certificate(certificate, document)
    scores = score(shows, weights, shows.federation.test_x, shows.federation.test_y)
    folder.save_scores(None if scores is None else scores.to_json(), public=context.federation.test_public)
    loss, accuracy = (None, None) if scores is None else (scores.loss, scores.accuracy)
    wrong = last.why if last.stopped == "diverged" else disappointment(context, loss, accuracy)
    if wrong:
        warnings.warn(wrong, SordinoWarning, stacklevel=2)
    return Outcome(
        folder=folder.path,
        rounds=last.here.round_,
        stopped=last.stopped or "rounds",
        why=last.why,
        accuracy=accuracy,
        loss=loss,
        scores=scores,
        seconds=time.perf_counter() - began,
        certificate=certificate,
        document=document,
        weights=weights,
        context=context,
        lens=lens,
        engine=str(context.trainer.choice),
    )


_MADE_OF: dict[tuple[type, type], str] = {
    (Recipe, str): "sordino.Recipe.load makes a Recipe of a file",
    (Recipe, type(Path())): "sordino.Recipe.load makes a Recipe of a file",
    (Recipe, dict): "sordino.Recipe.from_dict makes a Recipe of it",
    (Federation, tuple): "sordino.Federation.of(x, y) makes a Federation of arrays",
}
"""How what somebody gives becomes what is asked for."""


def _require_kinds(recipe: object, federation: object, mechanism: object) -> None:
    """Refuses arguments of another kind than they are said to have."""
    for field, given, kind in (("recipe", recipe, Recipe), ("federation", federation, Federation)):
        if given is not None and not isinstance(given, kind):
            made = _MADE_OF.get((kind, type(given)), f"give a sordino {kind.__name__}, or leave it out")
            raise RecipeError(f"{field} is a {type(given).__name__}: {made}")
    if mechanism is not None and not isinstance(mechanism, Mechanism):
        raise RecipeError(f'mechanism is {mechanism!r}: give settings, such as {{"name": "dp_sgd"}}, or a Mechanism')


def _begun(
    folder: RunFolder,
    recipe: Recipe,
    model: nn.Module | None,
    federation: Federation | None,
    mechanism: Mechanism | None,
    idle_settings: Literal["refuse", "warn"],
) -> RunContext:
    """Returns the context of a new run, and makes its folder."""
    own = GivenInPython(model is not None, federation is not None, mechanism is not None)
    context = assemble(named_in(recipe, model, federation), model, federation, mechanism)
    left = None if own.mechanism else planned_with_left(context)
    if left is not None:
        context = assemble(left[0], model, federation)
        warnings.warn(left[1], SordinoWarning, stacklevel=3)
    look_for_idle(context, own, idle_settings)
    begin(folder, context, own)
    return context


def _books(context: RunContext, folder: RunFolder) -> AbstractContextManager[Charging]:
    """Opens the ledger of a run that has begun: the one that it began with, and no older copy of it.

    Raises:
        LedgerError: it is gone, or was rolled back, cut or replaced: what was spent would be forgotten.
    """
    settings = context.recipe.ledger
    path, facts = settings.path or folder.ledger, folder.facts()
    return charging_for(
        context,
        path,
        facts["run"],
        facts["stream"],  # what names the noise names a release: none is made twice of one noise
        create=False,
        head=folder.head(),
        witness=settings.witness,
    )

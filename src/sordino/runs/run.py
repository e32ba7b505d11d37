"""A run: rounds until the recipe, the budget or the target says stop; a crash loses nothing and forgets no cost."""

from __future__ import annotations

import secrets
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from sordino.advise.cautions import cautions
from sordino.advise.outlook import outlook
from sordino.client.side import ClientSide
from sordino.data.federation import Federation
from sordino.errors import BudgetExceeded, ProtocolError, RecipeError, SordinoWarning
from sordino.events import Charge, Unbounded
from sordino.mechanism import Mechanism
from sordino.opening.feature_map import FeatureMap
from sordino.random.streams import Entropy, Streams
from sordino.recipe import Recipe
from sordino.runs.books import charging_for, refuse_if_spent, stream_name
from sordino.runs.checkpoint import Checkpoint
from sordino.runs.client_store import ClientStore
from sordino.runs.context import RunContext
from sordino.runs.folder import RunFolder
from sordino.runs.idle import idle
from sordino.runs.judgement import disappointment, uneven
from sordino.runs.outcome import Outcome
from sordino.runs.preparing import prepared, seen
from sordino.runs.progress import RoundProgress
from sordino.runs.public import test_is_public
from sordino.runs.round import Simulation, play
from sordino.runs.round_end import round_over
from sordino.runs.scores import score
from sordino.runs.setup import assemble
from sordino.runs.statement import statement_of
from sordino.runs.subject import keep_start, named_in, recall, refuse_own_mechanism, remembered
from sordino.runs.what_is_left import planned_with_left
from sordino.server.charging import Charging
from sordino.server.side import Position, ServerSide
from sordino.terms import Terms, Turn

RoundWatcher = Callable[[Mapping[str, Any]], object]
"""Is told the metrics of every round."""

_CHUNK = 1 << 16
"""Clients whose opening messages are made at once."""

_SAVED = 1.0
"""Seconds between two checkpoints where rounds since the last one can be played again to the bit, at no cost."""


def run(
    recipe: Recipe | None = None,
    *,
    model: nn.Module | Mapping[str, Any] | None = None,
    federation: Federation | None = None,
    mechanism: Mechanism | Mapping[str, Any] | None = None,
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
            settings of that section.
        federation: data of your own, in place of `recipe.data` and `recipe.partition`; resumed likewise.
        mechanism: a mechanism of your own, in place of `recipe.mechanism`; or settings of that section, such as
            `{"name": "dp_sgd"}`.
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
    if isinstance(mechanism, Mapping):
        sections, mechanism = {**sections, "mechanism": mechanism}, None
    if isinstance(model, Mapping):
        sections, model = {**sections, "model": model}, None
    for field, given, kind in (("recipe", recipe, Recipe), ("federation", federation, Federation)):
        if given is not None and not isinstance(given, kind):
            raise RecipeError(f"{field} is a {type(given).__name__}: give a sordino {kind.__name__}, or leave it out")
    if mechanism is not None and not isinstance(mechanism, Mechanism):
        raise RecipeError(f'mechanism is {mechanism!r}: give settings, such as {{"name": "dp_sgd"}}, or a Mechanism')
    begun = RunFolder(Path(out)) if resume and out else None
    if recipe is None and begun is not None and begun.begun:
        recipe = begun.recipe()
    recipe = Recipe.begin(sections) if recipe is None else recipe.but(**sections)
    folder = RunFolder(Path(out) if out else fresh_folder(recipe))
    _require_beginning(folder, resume)
    if resume:
        recipe, model, federation = _going_on(folder, recipe, model, federation, mechanism)
        _refuse_copy(folder, recipe)
        context = assemble(recipe, model, federation, mechanism)
    else:
        own = model is not None, federation is not None, mechanism is not None
        recipe = named_in(recipe, model, federation)
        context = assemble(recipe, model, federation, mechanism)
        left = None if mechanism is not None else planned_with_left(context)
        if left is not None:
            context = assemble(left[0], model, federation)
            warnings.warn(left[1], SordinoWarning, stacklevel=2)
        recipe = context.recipe
        _look_for_idle(context, own, idle_settings)
        _begin(folder, context, own)
    context = replace(context, randomness=Entropy() if recipe.run.entropy else Streams(folder.facts()["stream"]))
    bar = progress if isinstance(progress, RoundProgress) else RoundProgress.wanted(recipe, progress)
    told = [bar.played, *([] if watcher is None else [watcher])]
    with folder.alone(), _books(context, folder) as charging, nullcontext(bar) if bar is progress else bar:
        bar.say(str(context.trainer.choice))
        last, shows = _rounds(context, folder, charging, lambda metrics: [tell(metrics) for tell in told])
        weights = context.step.published(last.here.weights, last.here.state)
        lens = FeatureMap.of(last.here.knobs)
        certificate = charging.certificate(last.stopped)
        document = charging.document(certificate, statement_of(context), last.stopped)
        folder.save_model(context.state(weights), lens)
        folder.save_certificate(certificate, document)
    scores = score(shows, weights, shows.federation.test_x, shows.federation.test_y)
    folder.save_scores(None if scores is None else scores.to_json(), public=test_is_public(context.federation))
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
        simulation=True,
        weights=weights,
        context=context,
        lens=lens,
        engine=str(context.trainer.choice),
    )


def _require_beginning(folder: RunFolder, resume: bool) -> None:
    """Refuses to overwrite a run, and to resume what never began."""
    if folder.begun and not resume:
        raise RecipeError(f"--out {folder.path} already holds a run: add --resume, or name another folder")
    if resume and not folder.begun:
        raise RecipeError(f"{folder.path} holds no run that began: leave out --resume to begin one there")


def _going_on(
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


def _refuse_copy(folder: RunFolder, recipe: Recipe) -> None:
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


def _look_for_idle(context: RunContext, own: tuple[bool, bool, bool], what: Literal["refuse", "warn"]) -> None:
    """Tells of settings that have no effect.

    Raises:
        RecipeError: there are some, and they are refused.
    """
    for sentence in idle(context, own[0], own[1]):
        if what == "refuse":
            raise RecipeError(sentence)
        warnings.warn(sentence, SordinoWarning, stacklevel=4)


def _begin(folder: RunFolder, context: RunContext, own: tuple[bool, bool, bool]) -> None:
    """Makes the folder of a new run, once everything that could be refused was not."""
    recipe = context.recipe
    refuse_if_spent(context)
    if recipe.ledger.path is not None:
        with charging_for(context, recipe.ledger.path, "", witness=recipe.ledger.witness):
            pass  # a ledger that cannot be made leaves no folder behind
    folder.prepare()
    path, heads = (recipe.ledger.path, None) if recipe.ledger.path else (folder.ledger, folder.heads)
    # the ledger is there before the folder holds a run: whoever goes on with that never has to make one
    with charging_for(context, path, "", heads=heads, witness=recipe.ledger.witness) as charging:
        head, stream = charging.ledger.head, stream_name(context, charging.ledger)
        for sentence in [*_slow(context), *_cautions(context), *filter(None, [uneven(context)]), *charging.warnings]:
            warnings.warn(sentence, SordinoWarning, stacklevel=3)
    name = f"{folder.path.name}-{secrets.token_hex(4)}"
    facts = {"run": name, "simulation": True, "head": head, "stream": stream, "place": folder.place}
    facts |= remembered(context, *own)
    if own[0]:
        keep_start(folder, context.model)
    folder.create(recipe, facts)


def _slow(context: RunContext) -> list[str]:
    """Returns a sentence where no fast engine could take the model."""
    choice, asked = context.trainer.choice, context.recipe.train.engine
    return [f"{choice}"] if choice.engine == "loop" and asked != "loop" else []


def _cautions(context: RunContext) -> list[str]:
    """Returns what should be known before the first round, from settings and declared numbers alone."""
    told, mechanism, budget = context.federation.declared, context.mechanism, context.recipe.budget
    if all(isinstance(charge.event, Unbounded) for charge in mechanism.quote(mechanism.adapter.start())):
        return []  # nothing is promised
    expected = outlook(mechanism, told.people, told.total, context.layout.width)
    return cautions(mechanism.unit, told.people, told.total, budget.epsilon, budget.delta, expected)


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


def _rounds(
    context: RunContext, folder: RunFolder, charging: Charging, watcher: RoundWatcher
) -> tuple[Checkpoint, RunContext]:
    """Plays rounds from the last checkpoint on; returns where they ended, and the records as the opening shows them."""
    store = ClientStore(folder.store)
    simulation = simulation_of(context, charging, store)
    last = _past_what_was_reserved(folder.load(store) or Checkpoint(opened(simulation, context)), context, charging)
    context, simulation = seen(context, simulation, last.here.knobs)
    folder.rewind(last.here.round_)
    saved, since = last, time.monotonic()
    try:
        while last.stopped is None:
            last = _one(context, simulation, folder, last.here, watcher)
            if last.stopped_on_releases:
                charging.forfeit(last.here.round_)
            replayed = charging.repeatable and store.width == 0  # rows of clients that remember are given away again
            if last.stopped is not None or not replayed or time.monotonic() > since + _SAVED:
                folder.save(replace(last, head=charging.ledger.head), store)
                saved, since = last, time.monotonic()
    finally:
        simulation.rest()
        if last is not saved:
            folder.save(replace(last, head=charging.ledger.head), store)
    return last, context


def _past_what_was_reserved(last: Checkpoint, context: RunContext, charging: Charging) -> Checkpoint:
    """Returns where a run goes on whose noise remembers: after the last round that may have been released.

    Earlier contributions are in such a round, too. With fresh noise it would show them once more, and those who made
    them do not pay for it; a round that is left out shows nothing. What can be repeated to the bit is played again.
    """
    if charging.repeatable or last.stopped is not None or context.mechanism.separation < 2:
        return last
    reserved = (entry.round_ for entry in charging.ledger.entries if entry.run == charging.run)
    round_ = max(last.here.round_, *reserved, 0)
    over = "rounds" if round_ >= context.recipe.run.rounds else None
    return replace(last, here=replace(last.here, round_=round_), stopped=over)


def simulation_of(context: RunContext, charging: Charging, store: ClientStore) -> Simulation:
    """Returns both sides of the run's federation, in this process."""
    return Simulation(
        ServerSide(context.mechanism, context.step, charging, context.randomness),
        ClientSide(context.mechanism, context.trainer, context.randomness),
        context.federation,
        context.dropout,
        store,
    )


def _one(
    context: RunContext, simulation: Simulation, folder: RunFolder, here: Position, watcher: RoundWatcher
) -> Checkpoint:
    """Plays one round and tells about it; an exceeded budget, or a round that diverges, keeps the model and stops."""
    began = time.perf_counter()
    try:
        played = play(simulation, here)
    except BudgetExceeded as stop:
        return Checkpoint(here, "budget", str(stop))
    except ProtocolError as abort:
        after, notes, about = replace(here, round_=here.round_ + 1), None, {"aborted": str(abort)}
    else:
        after = replace(played.here, public=context.public_scores(played.here.weights))
        notes, about = played.notes, played.about()
    last, told = round_over(context, folder, here, after, about, began, simulation.server.charging.spent)
    if context.recipe.run.notes and notes is not None:
        folder.note(after.round_, notes)
    watcher(told)
    return last


def opened(simulation: Simulation, context: RunContext) -> Position:
    """Returns where a run begins: the first knobs, after the opening release if the mechanism makes one."""
    mechanism, charging = simulation.server.mechanism, simulation.server.charging
    knobs = mechanism.adapter.start()
    if mechanism.opening is not None:
        charges = tuple(Charge(guarantee, event) for guarantee, event in mechanism.opening.price())
        everyone = np.arange(simulation.federation.population)
        eligible = charging.eligible(0, charges, np.ones(len(everyone), bool))
        if not eligible.allowed.all():
            raise BudgetExceeded(
                f"{np.count_nonzero(~eligible.allowed)} clients cannot pay for the opening release, which everybody "
                "takes part in: raise budget.epsilon, or leave them out of the federation"
            )
        reservation = charging.reserve(0, everyone, charges, eligible)
        turn = Turn(Terms(0, context.weights, knobs), simulation.clients.randomness)
        told = simulation.tell(mechanism.opening, turn, everyone, _CHUNK)
        knobs = knobs.plus(mechanism.opening.conclude(told))
        charging.settle(reservation, everyone, charges, None)
    return Position(0, context.weights, prepared(simulation, context, knobs), {}, {})


def fresh_folder(recipe: Recipe) -> Path:
    """Returns the name of a new folder under `runs/`."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    path = Path("runs") / f"{stamp}-{recipe.mechanism.name}"
    return path if not path.exists() else path.with_name(f"{path.name}-{secrets.token_hex(2)}")

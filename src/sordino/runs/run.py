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
from typing import Any

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
from sordino.recipe import Recipe, TrainSection
from sordino.runs.books import charging_for, refuse_if_spent, stream_name
from sordino.runs.client_store import ClientStore
from sordino.runs.context import RunContext
from sordino.runs.folder import Checkpoint, RunFolder
from sordino.runs.judgement import disappointment
from sordino.runs.outcome import Outcome
from sordino.runs.preparing import prepared, seen
from sordino.runs.progress import RoundProgress
from sordino.runs.round import Simulation, play
from sordino.runs.round_end import round_over
from sordino.runs.setup import assemble
from sordino.runs.statement import statement_of
from sordino.server.charging import Charging
from sordino.server.side import Position, ServerSide
from sordino.terms import Terms, Turn
from sordino.train.local import ExampleGradients

RoundWatcher = Callable[[Mapping[str, Any]], object]
"""Is told the metrics of every round."""

_CHUNK = 1 << 16
"""Clients whose opening messages are made at once."""

_SYNCED = 1.0
"""Seconds between two checkpoints that are synced, where rounds can be played again to the bit."""


def run(
    recipe: Recipe | None = None,
    *,
    model: nn.Module | None = None,
    federation: Federation | None = None,
    mechanism: Mechanism | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    watcher: RoundWatcher | None = None,
    progress: bool | RoundProgress | None = None,
    **sections: Any,
) -> Outcome:
    """Trains a federated model under a privacy budget.

    Args:
        recipe: what to do; the embedded default when left out.
        model: a module of your own, in place of `recipe.model`.
        federation: data of your own, in place of `recipe.data` and `recipe.partition`.
        mechanism: a mechanism of your own, in place of `recipe.mechanism`.
        out: the run folder; by default a new one under `runs/`.
        resume: go on with the run that `out` holds.
        watcher: is called with the metrics of every round.
        progress: whether to show a bar on stderr (where it is no terminal: a line now and then), and which engine
            computes gradients; by default in a terminal only.
        **sections: sections of the recipe by name, as objects or dictionaries: `budget={"epsilon": 2}`.

    Raises:
        SordinoError: one sentence that names what is wrong and what to do about it; nothing is half-written.
    """
    began = time.perf_counter()
    recipe = (recipe or Recipe.load()).but(**sections)
    folder = RunFolder(Path(out) if out else fresh_folder(recipe))
    _require_beginning(folder, recipe, resume)
    context = assemble(recipe, model, federation, mechanism)
    if not resume:
        _begin(folder, context)
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
        folder.save_model(context.layout, weights, lens)
        folder.save_certificate(certificate, document)
    loss, accuracy = shows.evaluate(weights)
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
        seconds=time.perf_counter() - began,
        certificate=certificate,
        document=document,
        simulation=True,
        weights=weights,
        context=context,
        lens=lens,
        engine=str(context.trainer.choice),
    )


def _require_beginning(folder: RunFolder, recipe: Recipe, resume: bool) -> None:
    """Refuses to overwrite a run, to resume what never began, and to go on with another recipe."""
    if folder.begun and not resume:
        raise RecipeError(f"--out {folder.path} already holds a run: add --resume, or name another folder")
    if resume and not folder.begun:
        raise RecipeError(f"{folder.path} holds no run that began: leave out --resume to begin one there")
    if resume and folder.recipe() != recipe:
        raise RecipeError(
            f"{folder.path} was begun with another recipe: resume it without a recipe or --set, or name another --out"
        )


def _begin(folder: RunFolder, context: RunContext) -> None:
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
        for sentence in [*_slow(context), *_idle(context), *_cautions(context), *charging.warnings]:
            warnings.warn(sentence, SordinoWarning, stacklevel=3)
    name = f"{folder.path.name}-{secrets.token_hex(4)}"
    folder.create(recipe, {"run": name, "simulation": True, "head": head, "stream": stream})


def _slow(context: RunContext) -> list[str]:
    """Returns a sentence where no fast engine could take the model."""
    choice, asked = context.trainer.choice, context.recipe.train.engine
    return [f"{choice}"] if choice.engine == "loop" and asked != "loop" else []


def _idle(context: RunContext) -> list[str]:
    """Returns a sentence where settings of local training were changed, and clients send gradients instead."""
    usual, name = TrainSection().model_dump(exclude={"engine", "chunk"}), context.mechanism.name
    changed = [field for field, value in usual.items() if getattr(context.recipe.train, field) != value]
    if not changed or not isinstance(context.mechanism.local, ExampleGradients):
        return []
    fields = " and ".join(f"train.{field}" for field in changed)
    return [
        f"{fields} {'have' if len(changed) > 1 else 'has'} no effect under {name}, whose clients send clipped "
        f"gradients: the step is the server's, server.learning_rate (now {context.step.learning_rate:g}), and batches "
        "are drawn by mechanism.sampling_rate"
    ]


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
    path, run_id = settings.path or folder.ledger, folder.facts()["run"]
    return charging_for(context, path, run_id, create=False, head=folder.head(), witness=settings.witness)


def _rounds(
    context: RunContext, folder: RunFolder, charging: Charging, watcher: RoundWatcher
) -> tuple[Checkpoint, RunContext]:
    """Plays rounds from the last checkpoint on; returns where they ended, and the records as the opening shows them."""
    store = ClientStore(folder.store)
    simulation = simulation_of(context, charging, store)
    last = folder.load(store) or Checkpoint(opened(simulation, context))
    context, simulation = seen(context, simulation, last.here.knobs)
    folder.rewind(last.here.round_)
    synced = time.monotonic()
    while last.stopped is None:
        last = _one(context, simulation, folder, last.here, watcher)
        if last.stopped_on_releases:
            charging.forfeit(last.here.round_)
        durable = last.stopped is not None or not charging.repeatable or time.monotonic() > synced + _SYNCED
        synced = time.monotonic() if durable else synced
        last = replace(last, head=charging.ledger.head)
        folder.save(last, store, durable=durable)
    return last, context


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

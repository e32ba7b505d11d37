"""The rounds of a run, from where it stands to where it stops; a crash loses nothing and forgets no cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sordino.client.side import ClientSide
from sordino.errors import BudgetExceeded, ProtocolError
from sordino.runs.checkpoint import Checkpoint
from sordino.runs.client_store import ClientStore
from sordino.runs.context import RunContext
from sordino.runs.folder import RunFolder
from sordino.runs.preparing import prepared, with_mapped_records
from sordino.runs.round import Simulation, play
from sordino.runs.round_end import round_over
from sordino.server.charging import Charging
from sordino.server.side import Position, ServerSide
from sordino.terms import Terms, Turn

RoundWatcher = Callable[[Mapping[str, Any]], object]
"""Is told the metrics of every round."""


_CHUNK = 1 << 16
"""Clients whose opening messages are made at once."""


_SAVED = 1.0
"""Seconds between two checkpoints where rounds since the last one can be played again to the bit, at no cost."""


def play_rounds(
    context: RunContext, folder: RunFolder, charging: Charging, watcher: RoundWatcher
) -> tuple[Checkpoint, RunContext]:
    """Plays rounds from the last checkpoint on; returns where they ended, and the records as the opening shows them."""
    store = ClientStore(folder.store)
    simulation = simulation_of(context, charging, store)
    last = _past_what_was_reserved(folder.load(store) or Checkpoint(opened(simulation, context)), context, charging)
    context, simulation = with_mapped_records(context, simulation, last.here.knobs)
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
    if charging.repeatable or last.stopped is not None or context.mechanism.rounds_apart < 2:
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
        charges = mechanism.opening_charges
        everyone, instead = np.arange(simulation.federation.population), "leave them out of the federation"
        reservation = charging.reserve_for_everybody(0, charges, "the opening release", instead)
        turn = Turn(Terms(0, context.weights, knobs), simulation.clients.randomness)
        told = simulation.tell(mechanism.opening, turn, everyone, _CHUNK)
        knobs = knobs.plus(mechanism.opening.conclude(told))
        charging.settle(reservation, everyone, charges, None)
    return Position(0, context.weights, prepared(simulation, knobs), {}, {})

"""Plays the charged sums that come before the first round, and shows the records as they ask for."""

from __future__ import annotations

from dataclasses import replace

import torch

from sordino.errors import ProtocolError
from sordino.mechanism import Preparation
from sordino.opening.feature_map import mapped_federation
from sordino.random.streams import Randomness, Streams
from sordino.runs.context import RunContext
from sordino.runs.round import Simulation, play
from sordino.server.side import Position, ServerSide
from sordino.server.step import ServerStep
from sordino.terms import Knobs


def prepared(simulation: Simulation, knobs: Knobs) -> Knobs:
    """Returns the knobs with what the mechanism's preparations concluded, each played as a round 0 of its own.

    **Formal guarantees**: each sum is quoted, reserved durably before anything is asked, bounded, noised and settled as
    every round is; it has random streams and a fingerprint of its own, so that no noise is used twice and a run that
    is resumed pays once.
    **Edge cases**: where too many clients vanish, nothing is released, what was reserved stays spent, and training goes
    on without that part of the map.
    """
    for one in simulation.server.mechanism.preparation:
        try:
            knobs = knobs.plus(one.statistic.conclude(_released(one, simulation, knobs)))
        except ProtocolError:
            continue
    return knobs


def _released(one: Preparation, simulation: Simulation, knobs: Knobs) -> torch.Tensor:
    """Returns the noisy mean of one preparation, over records as the knobs so far show them."""
    mechanism, charging = one.mechanism, simulation.server.charging
    randomness = apart(simulation.clients.randomness, mechanism.name)
    books = replace(charging, mechanism=mechanism, fingerprint=f"{charging.fingerprint}/{mechanism.name}")
    sides = replace(
        simulation,
        server=ServerSide(mechanism, ServerStep(), books, randomness),
        clients=replace(
            simulation.clients, mechanism=mechanism, randomness=randomness, width=one.statistic.width, mapped=True
        ),
        federation=mapped_federation(knobs, simulation.federation),
    )
    start = Position(-1, torch.zeros(one.statistic.width, dtype=torch.float64), mechanism.adapter.start(), {}, {})
    return play(sides, start).here.weights


def apart(randomness: Randomness, name: str) -> Randomness:
    """Returns streams that share no draw with the rounds'; entropy never does."""
    return Streams(f"{randomness.seed}/{name}") if isinstance(randomness, Streams) else randomness


def with_mapped_records(context: RunContext, simulation: Simulation, knobs: Knobs) -> tuple[RunContext, Simulation]:
    """Returns a run whose records, test records included, are mapped once and for all as the knobs show them."""
    federation = mapped_federation(knobs, context.federation)
    if federation is context.federation:
        return context, simulation
    clients = replace(simulation.clients, mapped=True)
    return replace(context, federation=federation), replace(simulation, federation=federation, clients=clients)

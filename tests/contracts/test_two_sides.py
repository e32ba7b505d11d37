"""Every mechanism's round, played both ways: all clients at once, and one client object at a time over bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sordino.aggregate.secure_sum import SecureSum
from sordino.client.side import ClientSide
from sordino.client_state import ClientState
from sordino.errors import ProtocolError
from sordino.mechanisms import MECHANISMS
from sordino.messages import from_bytes, to_bytes
from sordino.recipe import Recipe
from sordino.runs.books import charging_for
from sordino.runs.client_store import ClientStore
from sordino.runs.context import RunContext
from sordino.runs.loop import opened, simulation_of
from sordino.runs.round import Simulation, play
from sordino.runs.setup import assemble
from sordino.server.side import Position
from sordino.stages import Revealed, Shielded
from sordino.stopwatch import Stopwatch
from sordino.terms import Survivors, Terms

SMALL = (
    "partition.clients=9",
    "partition.kind=quantity_skew",
    "train.steps=2",
    "train.batch_size=16",
    "run.rounds=3",
    "budget.epsilon=50",
    "dropout.rate=0.2",
    "dropout.stages=['train', 'upload', 'unmask']",
    "aggregate.tolerance=0.45",
    "data.public_fraction=0.1",
)
VARIANTS = (
    *(f"{name} {mode}" for name in MECHANISMS for mode in ("certified", "faithful")),
    "dp_sgd certified mechanism.trust=central",
    "dp_sgd certified mechanism.sampling_rate=0.5",
    "dp_sgd certified aggregate.kind=secure",
    "dropout_robust certified aggregate.kind=plain",
    "dp_sgd certified aggregate.kind=plain",
    "dropout_robust certified aggregate.kind=secure aggregate.fidelity=full",
    "dropout_robust certified select.kind=poisson select.rate=0.6",
    "component_adaptive certified mechanism.trust=distributed",
    "component_adaptive certified mechanism.trust=central mechanism.shape=box",
    "geometric certified mechanism.trust=distributed mechanism.unit=record",
    "geometric certified mechanism.refine=true",
    "fed_cad certified mechanism.obsolete=0.4",
    "fed_cad faithful mechanism.obsolete=0.4",
    "a_dpfl certified mechanism.validation=clients mechanism.adjust_every=1",
)


def context_of(variant: str) -> RunContext:
    name, mode, *settings = variant.split()
    own = [f"mechanism.name={name}", f"mechanism.mode={mode}"]
    return assemble(Recipe.load(None, [*SMALL, *own, *settings]))


def over_bytes(simulation: Simulation, here: Position, memory: dict[int, ClientState]) -> Position:
    """Plays a round with one client object for each client; the sides exchange bytes and nothing else."""
    server, aggregator = simulation.server, simulation.server.mechanism.aggregator
    randomness, population = simulation.clients.randomness, simulation.federation.population
    asked = server.ask(here, simulation.dropout.joined(randomness, here.round_ + 1, population))
    reservation = server.reserve(asked)
    vanished = simulation.dropout.draw(randomness, asked.terms)
    broadcast, uploads, kept = to_bytes(asked.terms), dict[int, bytes](), {}

    for client in np.setdiff1d(asked.terms.cohort, vanished.silent).tolist():
        side = replace(simulation.clients)  # an object of its own
        data = simulation.federation.gather(np.array([client]))
        turn = side.accept(from_bytes(Terms, broadcast), data)
        sent = side.contribute(turn, data, memory.get(client, ClientState.blank(1)), Stopwatch())
        uploads[client], kept[client], memory[client] = to_bytes(sent.message), (side, turn, sent.kept), sent.state

    partial = aggregator.start(asked.terms, server.mechanism.bounder.sensitivity(asked.terms.knobs))
    for upload in uploads.values():
        partial = aggregator.add(partial, from_bytes(Shielded, upload))
    told = to_bytes(Survivors(asked.terms.round_, np.array(sorted(uploads), np.int64)))
    for client, (side, turn, noise) in kept.items():
        revealed = side.reveal(turn, noise, from_bytes(Survivors, told))
        if revealed is not None and client not in vanished.unmask:
            partial = aggregator.subtract(partial, from_bytes(Revealed, to_bytes(revealed)))
    released = server.release(asked, aggregator.finish(partial, vanished))
    server.settle(asked, reservation, np.array(sorted(uploads), np.int64), released)
    return server.adapt(asked, here, released)


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_rows_at_once_and_one_client_at_a_time_release_the_same(variant: str, tmp_path: Path) -> None:
    context = context_of(variant)
    if integers := isinstance(context.mechanism.aggregator, SecureSum):
        context = context_of(f"{variant} train.chunk=1")  # another chunk changes the last digits of a row
    with (
        charging_for(context, tmp_path / "a.db", "a") as together,
        charging_for(context, tmp_path / "b.db", "b") as apart,
    ):
        one = simulation_of(context, together, ClientStore())
        other = simulation_of(context, apart, ClientStore())
        here, there = opened(one, context), opened(other, context)
        memory = dict[int, ClientState]()
        for _ in range(3):
            try:
                here = play(one, here).here
            except ProtocolError:
                with pytest.raises(ProtocolError):
                    over_bytes(other, there, memory)
                here, there = replace(here, round_=here.round_ + 1), replace(there, round_=there.round_ + 1)
                continue
            one.store.commit()
            there = over_bytes(other, there, memory)
            if integers:
                assert torch.equal(here.weights, there.weights)
            else:
                scale = max(1.0, float(here.weights.abs().max()))
                assert float((here.weights - there.weights).abs().max()) <= 1e-6 * scale
            for name, knob in here.knobs.tensors().items():
                assert torch.allclose(knob, there.knobs.tensors()[name], rtol=1e-5, atol=1e-6), name
        assert together.spent() == pytest.approx(apart.spent(), nan_ok=True)


def test_a_client_refuses_terms_that_do_not_name_it_or_are_for_another_model() -> None:
    context = context_of("fed_ldp certified")
    side = ClientSide(context.mechanism, context.trainer, context.randomness)
    data, knobs = context.federation.gather(np.array([3])), context.mechanism.adapter.start()
    side.accept(Terms(1, context.weights, knobs, np.array([2, 3])), data)
    with pytest.raises(ProtocolError, match="do not name this client"):
        side.accept(Terms(1, context.weights, knobs, np.array([2, 4])), data)
    with pytest.raises(ProtocolError, match="weights"):
        side.accept(Terms(1, context.weights[:-1], knobs, np.array([2, 3])), data)


def test_messages_that_are_damaged_or_of_another_kind_are_one_named_error() -> None:
    told = to_bytes(Survivors(3, np.arange(4)))
    assert from_bytes(Survivors, told).clients.tolist() == [0, 1, 2, 3]
    for wrong in (b"", told[:20], told[:-1], bytes(64), b"\xff" * 64):
        with pytest.raises(ProtocolError):
            from_bytes(Survivors, wrong)
    with pytest.raises(ProtocolError, match="kind"):
        from_bytes(Terms, told)
    with pytest.raises(ProtocolError, match="never leaves"):
        to_bytes(ClientState.blank(1))  # type: ignore[arg-type]

"""Parts that do not fit are refused when a mechanism is made; parts that lie are caught before anything is released."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from contracts.parts import CLIENTS, COMPOSED, Stage, contexts, distinct, people
from sordino.account.ledger.ledger import Ledger
from sordino.bound.l2 import Clip, PerExample, Unlimited
from sordino.bound.vouched import AsTrained
from sordino.client.side import ClientSide
from sordino.errors import CompositionError, LedgerError, ProtocolError
from sordino.events import Unbounded
from sordino.mechanism import Mechanism
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.perturb.laplace import LocalLaplace
from sordino.perturb.price import realised
from sordino.perturb.shares import GaussianShares
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.runs.run import run
from sordino.stages import Bounded, Sent, Update
from sordino.stopwatch import Stopwatch
from sordino.terms import Knobs, Turn, Vanished

FED_LDP, DP_SGD = "fed_ldp certified", "dp_sgd certified"


def made(composed: str) -> Mechanism:
    """Returns a mechanism with its default settings."""
    return contexts(composed)[""].mechanism


@pytest.mark.parametrize(
    ("bounder", "perturber", "sentence"),
    [
        (Clip(), LocalLaplace(), "bounded L1 norm, and the bounder bounds the L2 norm"),
        (Clip(order=1), LocalGaussian(), "bounded L2 norm, and the bounder bounds the L1 norm"),
        (AsTrained(), LocalGaussian(), "nothing bounds them: add a bounder"),
        (Unlimited(), LocalGaussian(), "nothing bounds them: add a bounder"),
        (PerExample(), LocalGaussian(), "protects each client and its bounder bounds each record"),
        (Clip(), LocalGaussian("record", "add_remove"), "each client and its noise is priced for each record"),
        (Clip(), GaussianShares(), "has local trust and its noise is priced for distributed trust"),
        (Clip(), CentralGaussian(), "has local trust and its noise is priced for central trust"),
        (Clip(), LocalGaussian(least=10**6), "counts on the noise of 1000000 messages in every sum"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_a_sentence(bounder, perturber, sentence) -> None:
    with pytest.raises(CompositionError, match=sentence) as refused:
        replace(made(FED_LDP), bounder=bounder, perturber=perturber)
    assert str(refused.value).startswith("fed_ldp ") and "\n" not in str(refused.value)


def test_noise_in_each_message_promises_nobody_that_its_presence_is_hidden() -> None:
    """With it Poisson coins were credited under local trust, where the noise of a sum tells how many took part."""
    with pytest.raises(CompositionError, match="does not hide that the client is there"):
        replace(made(FED_LDP), perturber=LocalGaussian(adjacency="add_remove"))


def test_a_bound_on_clients_is_refused_where_records_are_promised() -> None:
    with pytest.raises(CompositionError, match="protects each record and its bounder bounds each client"):
        replace(made(DP_SGD), bounder=Clip())


def test_every_pair_of_bounder_and_perturber_either_fits_or_is_refused() -> None:
    """What is composed has noise for the norm and a price for the unit that is bounded, or proves nothing."""
    outcomes = {True: 0, False: 0}
    for bounder, _ in distinct("bounder").values():
        for perturber, home in distinct("perturber").values():
            for unit in ("client", "record"):
                try:
                    mechanism = replace(home, bounder=bounder, perturber=perturber, unit=unit, opening=None)
                except CompositionError as refused:
                    outcomes[False] += 1
                    assert str(refused).count(home.name) == 1 and "\n" not in str(refused)
                    continue
                outcomes[True] += 1
                knobs = mechanism.adapter.start()
                bound = bounder.sensitivity(knobs)
                bounded = [g for g, event in perturber.price(knobs) if not isinstance(event, Unbounded)]
                if bound is None:
                    assert not bounded, (bounder, perturber)
                for guarantee in bounded:
                    assert guarantee.unit == bound.unit == unit, (bounder, perturber)
                    assert perturber.refuses(replace(bound, order=3 - bound.order)) is not None
    assert all(outcomes.values())


@pytest.mark.parametrize("composed", COMPOSED)
def test_every_mechanism_of_the_registry_is_composed_of_parts_that_fit(composed: str) -> None:
    for context in contexts(composed).values():
        mechanism = context.mechanism
        assert mechanism.perturber.refuses(mechanism.bounder.sensitivity(mechanism.adapter.start())) is None
        replace(mechanism)  # made once more, it is still not refused


@dataclass(frozen=True)
class Careless(Clip):
    """States the clip norm, and returns rows that are a thousand times longer."""

    def bound(self, update: Update, turn: Turn) -> Bounded:
        bounded = super().bound(update, turn)
        return replace(bounded, rows=bounded.rows * 1000)


@dataclass(frozen=True)
class Forgetful(Clip):
    """Lets rows through that are not numbers."""

    def bound(self, update: Update, turn: Turn) -> Bounded:
        bounded = super().bound(update, turn)
        return replace(bounded, rows=torch.full_like(bounded.rows, math.nan))


@pytest.mark.parametrize("bounder", [Careless(), Forgetful()])
def test_a_bounder_that_exceeds_what_it_states_is_caught_before_anything_is_sent(bounder: Clip) -> None:
    stage = Stage(FED_LDP, "")
    honest = ClientSide(stage.mechanism, stage.context.trainer, stage.context.randomness)
    careless = replace(honest, mechanism=replace(stage.mechanism, bounder=bounder))
    message = honest.contribute(stage.turn, stage.data, stage.state, Stopwatch()).message
    assert message.rows.shape == (CLIENTS, len(stage.turn.weights))
    with pytest.raises(CompositionError, match="nothing was sent"):
        careless.contribute(stage.turn, stage.data, stage.state, Stopwatch())


def test_a_message_that_was_bounded_by_more_than_the_terms_say_is_refused_by_the_server() -> None:
    stage = Stage(FED_LDP, "")
    aggregator, message = stage.mechanism.aggregator, stage.sent.message
    partial = aggregator.start(stage.turn.terms, stage.bounded.sensitivity)
    aggregator.add(partial, message)
    louder = replace(message.sensitivity, norm=message.sensitivity.norm * 2)
    with pytest.raises(ProtocolError, match="refuse it"):
        aggregator.add(partial, replace(message, sensitivity=louder))


@dataclass(frozen=True)
class Weak(LocalGaussian):
    """Draws a share of the noise that it is asked for, and says so."""

    share: float = 2 / 3

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        weaker = turn.knobs.but(noise_multiplier=turn.knobs.noise_multiplier * self.share)
        return super().shield(bounded, turn.but(knobs=weaker))


def recipe() -> Recipe:
    return Recipe.load(None, ["mechanism.name=fed_ldp", "run.rounds=2", "budget.epsilon=50"])


def weak(share: float) -> Mechanism:
    noise = made(FED_LDP).perturber
    return replace(made(FED_LDP), perturber=Weak(noise.unit, noise.adjacency, share=share))


@pytest.mark.parametrize("share", [2 / 3, 0.999, 0.0])
def test_a_release_with_less_noise_than_quoted_fails_at_settlement_and_no_model_comes_out(
    share: float, tmp_path: Path
) -> None:
    with pytest.raises(LedgerError, match="quote the dearest release"):
        run(recipe(), federation=people(), mechanism=weak(share), out=tmp_path / "run")
    written = {path.name for path in (tmp_path / "run").rglob("*")}
    assert (
        not {name for name in written if name.endswith((".safetensors", ".pt"))} and "certificate.json" not in written
    )
    with Ledger.open(RunFolder(tmp_path / "run").ledger) as ledger:
        (entry,) = ledger.entries  # what was reserved stays spent
        assert entry.round_ == 1


@pytest.mark.parametrize("share", [1.0, 1.5])
def test_a_release_with_as_much_noise_or_more_is_settled_at_the_quote(share: float, tmp_path: Path) -> None:
    outcome = run(recipe(), federation=people(), mechanism=weak(share), out=tmp_path / "run")
    assert outcome.rounds == 2
    quoted = {charge.event for charge in weak(share).quote(made(FED_LDP).adapter.start())}
    with Ledger.open(RunFolder(tmp_path / "run").ledger) as ledger:
        assert {charge.event for entry in ledger.entries for charge in entry.charges} == quoted


def test_a_price_for_no_noise_is_unbounded() -> None:
    stage = Stage(FED_LDP, "")
    perturber, turn = stage.mechanism.perturber, stage.turn
    for squared in (0.0, -1e-9):
        assert all(isinstance(event, Unbounded) for _, event in realised(perturber, turn, squared))
    silent = replace(stage.summed, squared_multiplier=0.0, least_squared_multiplier=0.0)
    assert all(isinstance(event, Unbounded) for _, event in perturber.release(silent, turn).prices)
    half = realised(perturber, turn, turn.knobs.noise_multiplier**2 / 4)
    assert half == perturber.price(turn.knobs.but(noise_multiplier=turn.knobs.noise_multiplier / 2))
    assert realised(perturber, turn, 4 * turn.knobs.noise_multiplier**2) == perturber.price(turn.knobs)


def test_one_message_with_too_little_noise_is_found_among_many() -> None:
    stage = Stage(FED_LDP, "")
    stated = stage.sent.message.squared_multipliers.clone()
    stated[2] /= 4
    aggregator, message = stage.mechanism.aggregator, replace(stage.sent.message, squared_multipliers=stated)
    partial = aggregator.add(aggregator.start(stage.turn.terms, stage.bounded.sensitivity), message)
    released = stage.mechanism.perturber.release(aggregator.finish(partial, Vanished()), stage.turn)
    halved = Knobs(stage.knobs.clip_norm, stage.knobs.noise_multiplier / 2)
    assert released.prices == stage.mechanism.perturber.price(halved)
    assert np.isfinite(released.stddev)

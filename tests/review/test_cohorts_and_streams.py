"""Attacks of a hostile review on cohorts, streams and stopping: each succeeded on the code that it reviewed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from sordino.account.accountants.accountant import price
from sordino.account.certificate.verify import verify
from sordino.events import GaussianDpEvent, Guarantee, SampledWithoutReplacementDpEvent
from sordino.recipe import Recipe
from sordino.runs.books import charging_for
from sordino.runs.client_store import ClientStore
from sordino.runs.loop import opened, simulation_of
from sordino.runs.outcome import Outcome
from sordino.runs.round import play
from sordino.runs.run import run
from sordino.runs.setup import assemble
from sordino.select.fixed import FixedSize

SMALL = ("partition.clients=24", "train.steps=1", "run.rounds=4", "run.evaluate_every=4", "budget.epsilon=4")


def played(folder: Path, *settings: str) -> Outcome:
    return run(Recipe.load(None, [*SMALL, *settings]), out=folder)


# F1: a cohort of fixed size gives a client's place to somebody else, who may contribute the opposite


@pytest.mark.parametrize(("drawn", "population"), [(9, 10), (80, 100), (5, 100)])
def test_fixed_cohorts_promise_an_outsider_no_more_than_is_attained_at_least(drawn: int, population: int) -> None:
    charge = FixedSize(drawn, population).charge(Guarantee("client", "outsider", "add_remove"), GaussianDpEvent(2.0))
    assert charge.guarantee.adjacency == "zero_out" and charge.payers == "eligible"
    assert charge.event == SampledWithoutReplacementDpEvent(population, drawn, GaussianDpEvent(2.0))
    rate, sigma = drawn / population, 2.0
    # all others contribute −1, the client +1 or nothing: displaced by one of them it is 1 or 2 away
    for epsilon in (0.1, 0.3, 1.0):

        def apart(x: float, epsilon: float = epsilon) -> float:
            here = rate * norm.pdf(x, 2, sigma) + (1 - rate) * norm.pdf(x, 0, sigma)
            gone = rate * norm.pdf(x, 1, sigma) + (1 - rate) * norm.pdf(x, 0, sigma)
            return max(0.0, here - math.exp(epsilon) * gone)

        attained = quad(apart, -30, 30, limit=400)[0]
        assert price({charge.event: 1}, adjacency="zero_out").delta(epsilon) >= attained - 1e-9


def test_under_local_trust_nothing_is_amplified_and_only_payers_are_drawn() -> None:
    local = FixedSize(2, 4, blind=False)
    event = GaussianDpEvent(1.0)
    assert local.charge(Guarantee("client", "outsider", "add_remove"), event).payers == "participants"


def test_a_client_that_cannot_pay_is_drawn_all_the_same_and_says_nothing(tmp_path: Path) -> None:
    settings = [*SMALL, "select.kind=fixed", "select.size=24", "budget.clients={3 = 1e-6}", "aggregate.kind=plain"]
    context = assemble(Recipe.load(None, settings))
    with charging_for(context, tmp_path / "ledger.db", "one") as charging:
        simulation = simulation_of(context, charging, ClientStore())
        asked = simulation.server.ask(opened(simulation, context), np.ones(24, bool))
        assert asked.terms.cohort.tolist() == list(range(24)) and asked.mute.tolist() == [3]
        play(simulation, opened(simulation, context))
        assert charging.ledger.participations.tolist() == [1, 1, 1, 0, *[1] * 20]


# F4: two runs on one ledger must not share a draw


def test_two_runs_on_one_ledger_share_no_noise_and_a_fresh_ledger_repeats_to_the_bit(tmp_path: Path) -> None:
    loud = ("mechanism.name=fed_ldp", "mechanism.noise_multiplier=50", "budget.epsilon=none", "run.rounds=2")
    shared = f"ledger.path={tmp_path / 'shared.db'}"
    one, two = (played(tmp_path / name, *loud, shared).weights for name in ("one", "two"))
    noise = float(one.std())
    assert float((one - two).std()) > noise  # independent draws: √2 times as large; shared ones would cancel
    again = [played(tmp_path / name, *loud).weights for name in ("fresh", "fresh-too")]
    assert torch.equal(*again)


def test_entropy_cannot_be_repeated_and_says_so(tmp_path: Path) -> None:
    loud = ("mechanism.name=fed_ldp", "run.rounds=1", "run.entropy=true")
    one, two = (played(tmp_path / name, *loud) for name in ("one", "two"))
    assert not torch.equal(one.weights, two.weights)


# F6: an empty cohort must not be seen by its missing noise


@pytest.mark.parametrize("kind", ["plain", "secure"])
def test_an_empty_cohort_releases_as_much_noise_as_any(kind: str, tmp_path: Path) -> None:
    settings = [*SMALL, "select.kind=poisson", "select.rate=0.02", "mechanism.name=dropout_robust"]
    context = assemble(Recipe.load(None, [*settings, f"aggregate.kind={kind}", "mechanism.noise_multiplier=3"]))
    with charging_for(context, tmp_path / "ledger.db", "one") as charging:
        simulation = simulation_of(context, charging, ClientStore())
        here, sizes = opened(simulation, context), list[int]()
        for _ in range(6):
            found = play(simulation, here)
            moved = (found.here.weights - here.weights) / context.step.learning_rate
            sizes.append(found.cohort)
            if found.cohort == 0:
                assert 0.8 * found.stddev < float(moved.std()) < 1.25 * found.stddev
                assert found.stddev == pytest.approx(
                    3 * context.mechanism.adapter.start().clip_norm / (0.02 * 24), rel=1e-6
                )
            here = replace(found.here)
        assert 0 in sizes


def test_rounds_that_can_abort_earn_no_amplification() -> None:
    def outsider(*settings: str) -> str:
        recipe = Recipe.load(None, [*SMALL, "select.kind=poisson", "select.rate=0.5", *settings])
        mechanism = assemble(recipe).mechanism
        quote = {charge.guarantee.observer: charge for charge in mechanism.quote(mechanism.adapter.start())}
        return quote["outsider"].payers

    assert outsider() == "eligible"
    assert outsider("aggregate.tolerance=0.3") == "participants"


# F8: stopping at a target is a choice from released values: the whole plan is paid


def test_a_stop_at_a_target_costs_the_whole_plan(tmp_path: Path) -> None:
    plan = (
        "mechanism.name=dp_fedavg",
        "select.kind=poisson",
        "select.rate=0.5",
        "run.evaluate_every=1",
        "run.rounds=6",
    )
    whole = played(tmp_path / "whole", *plan)
    stopped = played(tmp_path / "stopped", *plan, "run.target=0.01")
    assert (stopped.stopped, stopped.rounds) == ("target", 1)
    for outcome in (whole, stopped):
        assert outcome.certificate.entry("client", "outsider").epsilon == pytest.approx(4, abs=1e-3)


def test_a_stop_at_a_target_beside_secret_coins_has_a_certificate(tmp_path: Path) -> None:
    """The plan is charged to everybody, beyond the budget, which is then no bound: nothing may be certified by it."""
    plan = ["mechanism.name=dropout_robust", "select.kind=poisson", "select.rate=0.2", "run.rounds=8"]
    stopped = played(tmp_path / "stopped", *plan, "run.target=0.01")
    assert stopped.stopped == "target" and stopped.document is not None
    promise = next(one for one in stopped.document.promises if one.observer == "server")
    dearest = stopped.certificate.entry("client", "server").epsilon
    assert promise.epsilon is not None and dearest is not None and promise.epsilon >= dearest > 4
    ledger = stopped.folder / "private" / "ledger.db"
    assert [*verify(ledger, stopped.certificate, document=stopped.document)]


# F9: with noise that falls, later rounds are dearer: the chance of an early end is that of the real schedule


def test_the_early_end_is_priced_over_the_real_schedule(tmp_path: Path) -> None:
    falling = (
        "mechanism.name=geometric",
        "mechanism.trust=distributed",
        "mechanism.theta=0.8",
        "mechanism.noise_multiplier=6",
        "select.kind=poisson",
        "select.rate=0.3",
        "run.rounds=12",
        "budget.epsilon=1.2",
        "budget.minimum_clients=20",
    )
    certificate = played(tmp_path / "run", *falling).certificate
    assert certificate.early_end > 1e-5 or certificate.stopped_by_participation
    server, outsider = (certificate.entry("client", who).epsilon for who in ("server", "outsider"))
    assert server is not None and outsider == pytest.approx(server)

"""The baselines as they are put together: bounded in the right norm, charged as quoted, divided by public numbers."""

from collections import Counter

import numpy as np
import pytest
import torch

from oracles import assert_normal
from played import bounded_of, cast, charged, first_turn, play, summed_of
from sordino.account.accountants.accountant import price
from sordino.aggregate.plain import PlainSum
from sordino.events import GaussianDpEvent, Guarantee, PoissonSampledDpEvent, Unbounded

POISSON = ("select.kind=poisson", "select.rate=0.5")
REPLACE = ("mechanism.adjacency=replace",)
CENTRAL = ("mechanism.trust=central", "mechanism.sampling_rate=0.5")
LOCAL = {("client", "server", "zero_out"), ("client", "outsider", "zero_out")}
REPLACED = {("client", "server", "replace"), ("client", "outsider", "replace")}
SUMMED = {("client", "server", "zero_out"), ("client", "outsider", "add_remove")}
RECORD = {("record", "server", "add_remove"), ("record", "outsider", "add_remove")}


@pytest.mark.parametrize(
    ("name", "more", "promised"),
    [
        ("fed_ldp", (), LOCAL),
        ("fed_ldp", REPLACE, REPLACED),
        ("laplace", (), LOCAL),
        ("laplace", REPLACE, REPLACED),
        ("dp_fedavg", (), SUMMED),
        ("dp_fedavg_adaptive", (), SUMMED),
        ("dp_sgd", (), RECORD),
        ("dp_sgd", CENTRAL, RECORD),
    ],
)
def test_the_ledger_equals_the_quote_and_the_budget_is_met(name, more, promised, tmp_path):
    settings = (f"mechanism.name={name}", *more)
    setup = cast(*settings)
    quoted = {charge.guarantee: charge.event for charge in setup.mechanism.quote(setup.mechanism.adapter.start())}
    assert {(g.unit, g.observer, g.adjacency) for g in quoted} == promised
    outcome = play(tmp_path / "run", *settings)
    assert (outcome.rounds, outcome.stopped) == (5, "rounds")
    with charged(tmp_path / "run") as ledger:
        for guarantee, event in quoted.items():
            assert ledger.book(guarantee).histories(np.arange(24)) == [Counter({event: 5})] * 24
    bounded = [(g.adjacency, event) for g, event in quoted.items() if not isinstance(event, Unbounded)]
    worst = max(price({event: 5}, adjacency=adjacency).epsilon(1e-5) for adjacency, event in bounded)
    assert 8 * (1 - 1e-4) < worst <= 8


@pytest.mark.parametrize(
    ("name", "order"), [("fed_ldp", 2), ("laplace", 1), ("dp_fedavg", 2), ("dp_fedavg_adaptive", 2), ("dp_sgd", 2)]
)
def test_what_a_client_contributes_is_bounded_in_the_norm_of_its_noise(name, order):
    """One record a client, so that the record's bound shows too; a clip norm that every update exceeds."""
    setup = cast(f"mechanism.name={name}", "mechanism.clip_norm=0.01", "partition.clients=1437")
    mechanism = setup.mechanism
    turn = first_turn(mechanism, clients=24).but(weights=setup.weights)
    for client in range(5):
        update = mechanism.local.train(setup.trainer, turn, setup.federation.gather(np.array([client])))
        rows = mechanism.bounder.bound(update, turn).rows.double()
        norm = float(torch.linalg.vector_norm(rows, order))
        assert 0.01 * (1 - 3e-4) < norm <= 0.01 * (1 + 1e-6)


@pytest.mark.parametrize("name", ["fed_ldp", "dp_fedavg", "dp_fedavg_adaptive", "dp_sgd"])
def test_what_is_released_carries_the_noise_that_is_charged(name):
    chosen = (f"mechanism.name={name}", "mechanism.clip_norm=0.3", "mechanism.noise_multiplier=4")
    setup = cast(*chosen, "aggregate.kind=plain")
    mechanism = setup.mechanism
    turn = first_turn(mechanism, 20_000, clients=24)
    nothing = bounded_of(turn, torch.zeros(24, 20_000))
    message = mechanism.perturber.shield(nothing, turn).message
    released = mechanism.perturber.release(summed_of(mechanism.perturber, PlainSum(24.0), turn, nothing), turn)
    assert mechanism.charges(released.prices) == mechanism.quote(turn.knobs)
    events = {charge.guarantee.observer: charge.event for charge in mechanism.quote(turn.knobs)}
    spread = events["outsider"].noise_multiplier * 0.3
    if name == "fed_ldp":
        assert_normal(message.rows.numpy(), events["server"].noise_multiplier * 0.3)
        assert spread == pytest.approx(events["server"].noise_multiplier * 0.3 * 24**0.5)
    elif name == "dp_fedavg_adaptive":  # the bit takes its share of the price, so updates carry more noise than charged
        assert released.stddev * 24 > spread
        assert_normal(released.mean.numpy() * 24, released.stddev * 24)
    else:
        assert_normal(released.mean.numpy() * 24, spread)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("fed_ldp", 12), ("laplace", 12), ("dp_fedavg", 12), ("dp_fedavg_adaptive", 12), ("dp_sgd", 1437 / 2)],
)
def test_sums_are_divided_by_a_public_constant(name, expected):
    assert cast(
        f"mechanism.name={name}", "mechanism.noise_multiplier=1", *POISSON
    ).mechanism.aggregator.denominator == pytest.approx(expected)


@pytest.mark.parametrize("trust", ["distributed", "central"])
def test_a_batch_holds_the_share_of_records_that_is_credited(trust):
    setup = cast(
        "mechanism.name=dp_sgd",
        f"mechanism.trust={trust}",
        "mechanism.sampling_rate=0.25",
        "aggregate.kind=plain",
        "mechanism.noise_multiplier=1",
        "partition.clients=1437",
    )
    turn = first_turn(setup.mechanism, clients=1437).but(weights=setup.weights)
    everybody = np.arange(1437)
    update = setup.mechanism.local.train(setup.trainer, turn, setup.federation.gather(everybody))
    taken = int((update.rows.abs().sum(1) > 0).sum())  # who holds one record, and did not draw it, sends zeros
    assert abs(taken - 1437 / 4) < 5 * np.sqrt(1437 * 3 / 16)
    *_, outsider = setup.mechanism.quote(turn.knobs)
    assert outsider.guarantee == Guarantee("record", "outsider", "add_remove")
    assert outsider.event == PoissonSampledDpEvent(0.25, GaussianDpEvent(1.0))

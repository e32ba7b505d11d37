"""dropout_robust end to end: who is charged what, that it is what was quoted, and that every way of summing agrees."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sordino.account.accountants.accountant import price
from sordino.account.ledger.ledger import Ledger
from sordino.audit.replay import replay
from sordino.data.federation import Federation
from sordino.errors import RecipeError
from sordino.events import GaussianDpEvent, Guarantee, PoissonSampledDpEvent, Skellam, Unbounded
from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.runs.setup import assemble

SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
STAGES = 'dropout.stages=["train", "upload", "unmask"]'
WORLD = ["dropout.rate=0.25", STAGES, "dropout.late=0.2", "dropout.late_round=3"]


def recipe(*settings):
    return Recipe.load(None, ["mechanism.name=dropout_robust", "run.rounds=4", *settings])


@pytest.fixture(scope="module")
def people():
    generator = torch.Generator().manual_seed(0)
    x, owners = torch.randn(600, 8, generator=generator), np.repeat(np.arange(60), 10)
    y = (x[:, 0] + x[:, 1] > 0).long()
    federation = Federation.of(x, y, owners, test=(x[:60], y[:60]))
    return federation.declare(replace(federation.proposed(), sizes=True))


def test_the_realised_ledger_equals_the_quoted_plan(people, tmp_path):
    outcome = run(recipe(), federation=people, out=tmp_path / "run")
    mechanism = assemble(recipe(), federation=people).mechanism
    quoted = {charge.guarantee: charge.event for charge in mechanism.quote(mechanism.adapter.start())}
    assert set(quoted) == {SERVER, OUTSIDER}
    for entry in outcome.certificate.entries:
        event = quoted[Guarantee(entry.unit, entry.observer, entry.adjacency)]
        assert entry.epsilon == pytest.approx(price({event: 4}, adjacency=entry.adjacency).epsilon(1e-5))
        assert entry.status == "certified" and entry.epsilon <= 1 + 1e-9
    assert max(entry.epsilon for entry in outcome.certificate.entries) == pytest.approx(1, abs=1e-5)


def test_selection_amplifies_against_the_outsider_alone(people):
    mechanism = assemble(
        recipe("select.kind=poisson", "select.rate=0.2", "aggregate.kind=plain"), federation=people
    ).mechanism
    charges = {charge.guarantee: charge for charge in mechanism.quote(mechanism.adapter.start())}
    z = mechanism.adapter.start().noise_multiplier
    assert charges[SERVER].event == GaussianDpEvent(z) and charges[SERVER].payers == "participants"
    assert charges[OUTSIDER].event == PoissonSampledDpEvent(0.2, GaussianDpEvent(z))
    assert charges[OUTSIDER].payers == "eligible"


@pytest.mark.parametrize("mode", ["certified", "faithful"])
def test_dropouts_and_late_joiners_are_lived_through_and_silent_clients_pay_nothing(mode, people, tmp_path):
    settings = [f"mechanism.mode={mode}", "select.kind=poisson", "select.rate=0.8", "mechanism.noise_multiplier=5"]
    outcome = run(
        recipe(*settings, *WORLD, "budget.epsilon=50", "aggregate.tolerance=0.6", "aggregate.kind=plain"),
        federation=people,
        out=tmp_path / "run",
    )
    assert outcome.rounds == 4
    with Ledger.open(tmp_path / "run" / "private" / "ledger.db") as ledger:
        sent = sum(len(entry.participants.ids()) for entry in ledger.entries)
        assert ledger.participations.sum() == sent < 0.8 * 60 * 4
        assert ledger.participations.max() <= 4


@pytest.mark.parametrize("kind", ["plain", "secure"])
def test_the_denominator_is_a_public_constant(people, kind):
    settings = ("mechanism.mean_weight=0.5", "mechanism.record_limit=20", f"aggregate.kind={kind}")
    mechanism = assemble(recipe(*settings), federation=people).mechanism
    assert mechanism.aggregator.denominator == 30
    assert mechanism.bounder.record_limit == 20


@pytest.mark.parametrize("name", ["dropout_robust", "dp_sgd"])
def test_secure_sums_of_every_fidelity_train_the_same_model(name, people, tmp_path):
    played = [
        replay(
            recipe(
                f"mechanism.name={name}",
                "aggregate.kind=secure",
                f"aggregate.fidelity={fidelity}",
                *WORLD,
                "run.rounds=2",
            ),
            people,
            0,
        )
        for fidelity in ("exact", "masked", "full")
    ]
    first = played[0]
    assert first.last.abs().max() > 0
    for other in played[1:]:
        assert torch.equal(other.last, first.last)
        assert [e.epsilon for e in other.certificate.entries] == [e.epsilon for e in first.certificate.entries]


@pytest.mark.parametrize("name", ["dropout_robust", "dp_sgd"])
def test_integer_noise_is_calibrated_on_its_own_event(name, people):
    mechanism = assemble(recipe(f"mechanism.name={name}", "aggregate.kind=secure"), federation=people).mechanism
    events = [(c.guarantee.adjacency, c.event) for c in mechanism.quote(mechanism.adapter.start())]
    assert all(isinstance(event, Skellam) for _, event in events)
    worst = max(price({event: 4}, adjacency=adjacency).epsilon(1e-5) for adjacency, event in events)
    assert worst == pytest.approx(1, abs=1e-5) and worst <= 1
    plain = assemble(recipe(f"mechanism.name={name}", "aggregate.kind=plain"), federation=people).mechanism
    integers, floats = (m.adapter.start().noise_multiplier for m in (mechanism, plain))
    assert floats < integers < 1.15 * floats


def test_secure_sums_name_what_they_cannot_do(people):
    with pytest.raises(RecipeError, match="printed secure sum needs tolerance"):
        assemble(recipe("mechanism.mode=faithful", "aggregate.kind=secure", "aggregate.tolerance=0.6"), None, people)
    with pytest.raises(RecipeError, match="noise shares"):
        assemble(recipe("mechanism.name=fed_ldp", "aggregate.kind=secure"), federation=people)
    with pytest.raises(RecipeError, match="a secure sum needs tolerance"):
        assemble(recipe("aggregate.kind=secure", "aggregate.tolerance=0.6"), federation=people)


def faithful(people, *settings):
    return assemble(recipe("mechanism.mode=faithful", *settings), federation=people).mechanism


@pytest.mark.parametrize(
    ("form", "tolerance", "rounds", "epsilon"),
    [
        # Baek et al., Table 2 (q = 0.01, z = 1): no dropout, 10 % and 30 %
        ("plain", 0.0, 1, 1.317),
        ("extended", 0.3, 100, 1.612),
        ("uncalibrated", 0.1, 100, 1.822),
        ("uncalibrated", 0.3, 1000, 3.867),
    ],
)
def test_the_claim_is_the_papers_table(form, tolerance, rounds, epsilon, people):
    mechanism = faithful(
        people,
        f"mechanism.form={form}",
        "mechanism.noise_multiplier=1.0",
        "select.kind=poisson",
        "select.rate=0.01",
        f"aggregate.tolerance={tolerance}",
    )
    assert mechanism.claim.per_round
    assert mechanism.claim.epsilon(rounds, 1e-5) == pytest.approx(epsilon, abs=5e-4)


def test_faithful_noise_is_calibrated_to_the_claim(people):
    mechanism = faithful(people, "select.kind=poisson", "select.rate=0.3")
    assert mechanism.claim.epsilon(4, 1e-5) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("form", ["uncalibrated", "plain", "extended"])
def test_the_printed_forms_run_and_certify_what_the_leak_leaves(form, people, tmp_path):
    settings = [
        f"mechanism.form={form}",
        "mechanism.noise_multiplier=5",
        "aggregate.tolerance=0.5",
        "budget.epsilon=50",
    ]
    outcome = run(
        recipe("mechanism.mode=faithful", *settings, "dropout.rate=0.2"), federation=people, out=tmp_path / "run"
    )
    kept = {"uncalibrated": 0.5, "plain": 0.5 / 1.5, "extended": 0.5}[form]
    server = outcome.certificate.entries[0]
    played = int(server.worst.participations)
    assert server.epsilon == pytest.approx(price({GaussianDpEvent(10 * np.sqrt(kept)): played}).epsilon(1e-5))
    presence = outcome.certificate.entries[-1]
    assert (presence.observer, presence.adjacency) == ("outsider", "add_remove")
    assert presence.epsilon is None and presence.status == "claimed-only" and "divided" in presence.reason
    assert presence.claimed_epsilon == pytest.approx(
        faithful(people, *settings).claim.epsilon(outcome.rounds, 1e-5), rel=1e-6
    )


def test_the_printed_guarantees(people):
    mechanism = faithful(people, "select.kind=poisson", "select.rate=0.3")
    charges = mechanism.quote(mechanism.adapter.start())
    assert [c.payers for c in charges] == ["participants"] * 3
    assert isinstance(charges[2].event, Unbounded) and not isinstance(charges[0].event, PoissonSampledDpEvent)


def test_least_weight_comes_from_the_tolerance_or_the_recipe(people):
    parts = [
        faithful(people, "aggregate.tolerance=0.25").perturber,
        faithful(people, "mechanism.minimum_weight=12.5").perturber,
        faithful(people, "mechanism.record_limit=20", "aggregate.tolerance=0.25").perturber,
    ]
    assert parts[0].least == pytest.approx(45) and parts[1].least == 12.5
    assert parts[2].least == pytest.approx(0.75 * float(parts[2].weights.sum()))

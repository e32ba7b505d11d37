"""a_dpfl end to end: the opening is charged once, ranking and plateau see releases alone, and the filter holds."""

import math

import numpy as np
import pytest
import torch

from sordino.account.ledger.ledger import Ledger
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts
from sordino.errors import RecipeError
from sordino.events import ComposedDpEvent, GaussianDpEvent, Guarantee, SelfComposedDpEvent
from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.runs.setup import assemble
from sordino.server.filters import filters_for

SERVER = Guarantee("record", "server", "add_remove")
OUTSIDER = Guarantee("record", "outsider", "add_remove")
CLIENTS, EACH = 40, 25


@pytest.fixture(scope="module")
def people():
    """Forty clients; the last ten hold one label only."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 4, (CLIENTS, EACH), generator=generator)
    y[30:] = 2
    x = torch.randn(CLIENTS * EACH, 6, generator=generator) + y.reshape(-1, 1)
    owners, test = np.repeat(np.arange(CLIENTS), EACH), (x[::10], y.reshape(-1)[::10])
    federation = Federation.of(x, y.reshape(-1), owners, test, classes=4)
    return federation.declare(federation.proposed())


def recipe(*settings):
    basics = ["mechanism.name=a_dpfl", "run.rounds=6", "train.batch_size=5", "select.kind=fixed", "select.size=20"]
    return Recipe.load(None, [*basics, "budget.epsilon=8", *settings])


def test_typical_clients_are_asked_and_skewed_ones_are_not(people, tmp_path):
    run(recipe("mechanism.histogram_noise=0.7", "budget.epsilon=30"), federation=people, out=tmp_path / "run")
    with Ledger.open(tmp_path / "run" / "private" / "ledger.db") as ledger:
        rounds = [entry for entry in ledger.entries if entry.round_ > 0]
        assert rounds and all(len(entry.participants.ids()) == 20 for entry in rounds)
        assert max(int(entry.participants.ids().max()) for entry in rounds) < 30


def test_the_opening_is_charged_to_everybody_exactly_once(people, tmp_path):
    mechanism = assemble(recipe(), federation=people).mechanism
    run(recipe(), federation=people, out=tmp_path / "run")
    with Ledger.open(tmp_path / "run" / "private" / "ledger.db") as ledger:
        openings = [entry for entry in ledger.entries if entry.round_ == 0]
        assert len(openings) == 1 and len(openings[0].participants.ids()) == CLIENTS
        assert {(c.guarantee, c.event) for c in openings[0].charges} == {
            (guarantee, GaussianDpEvent(mechanism.opening.noise_multiplier)) for guarantee in (SERVER, OUTSIDER)
        }


def test_the_filter_holds_and_the_certificate_is_its_promise(people, tmp_path):
    always = recipe("mechanism.threshold=1.0", "mechanism.adjust_every=1")
    outcome = run(always, federation=people, out=tmp_path / "run")
    # accuracy never rises by more than 1, so noise falls every round and the budget ends the run
    assert outcome.stopped == "budget" and 0 < outcome.rounds < 6
    for entry in outcome.certificate.entries:
        assert entry.status == "certified" and entry.epsilon <= 8 * (1 + 1e-9) and "filter" in entry.accountant
    mechanism = assemble(always, federation=people).mechanism
    filters = filters_for(mechanism, 8.0, 1e-5)
    with Ledger.open(tmp_path / "run" / "private" / "ledger.db") as ledger:
        for guarantee in (SERVER, OUTSIDER):
            charges = [charge for entry in ledger.entries for charge in entry.charges if charge.guarantee == guarantee]
            spent = ComposedDpEvent(tuple(charge.event for charge in charges))
            assert filters[guarantee].cost(spent, "add_remove") <= filters[guarantee].capacity * (1 + 1e-9)


@pytest.mark.parametrize("settings", [(), ("train.batch_size=25",), ("mechanism.expected_decays=0",)])
def test_noise_is_calibrated_so_that_the_expected_decays_spend_the_budget(settings, people):
    mechanism = assemble(recipe("run.rounds=12", *settings), federation=people).mechanism
    start, part = mechanism.adapter.start(), mechanism.perturber
    z, decays = start.noise_multiplier, 0 if "mechanism.expected_decays=0" in settings else 2
    spent = [GaussianDpEvent(mechanism.opening.noise_multiplier)]
    for round_ in range(1, 13):
        level = (round_ - 1) * (decays + 1) // 12
        spent.append(part.price(start.but(noise_multiplier=z * 0.7**level), round_)[0][1])
    for chosen in filters_for(mechanism, 8.0, 1e-5).values():
        total = chosen.cost(ComposedDpEvent(tuple(spent)), "add_remove")
        assert total == pytest.approx(chosen.capacity, rel=1e-6) and total <= chosen.capacity * (1 + 1e-9)


def test_counts_are_charged_in_adjustment_rounds_alone(people):
    mechanism = assemble(recipe("mechanism.adjust_every=3"), federation=people).mechanism
    events = [mechanism.quote(mechanism.adapter.start(), round_)[0].event for round_ in (1, 2, 3)]
    count = GaussianDpEvent(mechanism.perturber.count.noise_multiplier)
    assert events[0] == events[1] and isinstance(events[0], SelfComposedDpEvent)
    assert events[2] == ComposedDpEvent((events[0], count))


def test_public_records_need_no_count(people):
    public = Federation(
        "own", people.train_x, people.train_y, people.test_x, people.test_y, 4, people.partition,
        people.test_x, people.test_y, people.declared,
    )  # fmt: skip
    mechanism = assemble(recipe(), federation=public).mechanism
    assert mechanism.perturber.count is None and mechanism.adapter.side is None
    assert mechanism.local.count_every is None
    counted = assemble(recipe("mechanism.validation=clients"), federation=public).mechanism
    assert counted.perturber.count is not None and counted.adapter.side == "right"


def test_batches_are_poisson_with_a_public_rate(people):
    mechanism = assemble(recipe(), federation=people).mechanism
    records = people.sizes().mean()
    assert mechanism.local.sampling_rate == pytest.approx(5 / records) == mechanism.perturber.sampling_rate
    assert mechanism.local.batch == pytest.approx(5) and mechanism.local.steps == math.ceil(records / 5)
    assert mechanism.local.steps == mechanism.perturber.steps and mechanism.adaptive


@pytest.mark.parametrize("mode", ["certified", "faithful"])
@pytest.mark.parametrize("selection", ["best", "weighted", "uniform"])
def test_it_runs_with_dropouts_and_late_joiners(mode, selection, people, tmp_path):
    outcome = run(
        recipe(
            f"mechanism.mode={mode}", f"mechanism.selection={selection}", "dropout.rate=0.3", "dropout.late=0.3",
            'dropout.stages=["train", "upload", "unmask"]', "dropout.late_round=3", "run.rounds=3",
        ),
        federation=people,
        out=tmp_path / "run",
    )  # fmt: skip
    assert outcome.rounds == 3 and torch.isfinite(outcome.weights).all() and outcome.weights.abs().max() > 0


def test_the_printed_form_claims_its_formula_and_proves_nothing(people, tmp_path):
    printed = recipe("mechanism.mode=faithful", "mechanism.noise_multiplier=1.0")
    outcome = run(printed, federation=people, out=tmp_path / "run")
    for entry in outcome.certificate.entries:
        assert entry.epsilon is None and entry.status == "claimed-only"
        assert entry.claimed_epsilon == pytest.approx(math.sqrt(math.log(1.25e5)), rel=1e-9)
        for words in ("before the batch gradient is clipped", "histograms", "accuracy on private records"):
            assert words in entry.reason
    mechanism = assemble(recipe("mechanism.mode=faithful", "budget.epsilon=2.0"), federation=people).mechanism
    assert mechanism.claim.epsilon(1, 1e-5) == pytest.approx(2.0)
    assert mechanism.local.order == "noise_then_clip" and mechanism.opening.noise_multiplier is None


def test_clients_below_the_threshold_are_refused(people, tmp_path):
    run(
        recipe("select.size=40", "mechanism.histogram_noise=0.7", "mechanism.refuse_below=0.5", "budget.epsilon=30"),
        federation=people,
        out=tmp_path / "run",
    )
    with Ledger.open(tmp_path / "run" / "private" / "ledger.db") as ledger:
        asked = np.unique(np.concatenate([e.participants.ids() for e in ledger.entries if e.round_ > 0]))
        assert 0 < len(asked) < 40 and asked.max() < 30


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("mechanism.validation=public",), "public_fraction"),
        (("mechanism.histogram_noise=0.01",), "histogram_noise"),
    ],
)
def test_impossible_settings_are_named(settings, words, people):
    with pytest.raises(RecipeError, match=words):
        assemble(recipe(*settings), federation=people)


def test_regression_is_refused():
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    numbers = Federation.of(x, x[:, 0], 5, test=None, classes=0, public=PublicCounts(records=len(x)))
    with pytest.raises(RecipeError, match="labels"):
        assemble(recipe("select.size=2"), federation=numbers)

"""geometric end to end: Eq. (8), the whole schedule within the budget, refinement that never exceeds it, M*."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

from played import cast, charged, play
from sordino.account.accountants.accountant import price
from sordino.account.accountants.published import yuan_refined, yuan_sensitivity, yuan_sigma, yuan_sum
from sordino.adapt.geometric import relative
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts
from sordino.errors import RecipeError
from sordino.events import GaussianDpEvent, Guarantee, PoissonSampledDpEvent
from sordino.recipe import Recipe
from sordino.runs.setup import assemble
from sordino.train.settings import LocalTraining

NAME = "mechanism.name=geometric"
FAITHFUL = "mechanism.mode=faithful"
SERVER = Guarantee("client", "server", "zero_out")
WORLD = ("dropout.rate=0.3", "dropout.late=0.3", "dropout.late_round=3", "select.kind=fixed", "select.size=12")
REFINED = ("mechanism.refine=true", "data.public_fraction=0.2", "run.rounds=12", "run.evaluate_every=20")


def history(multipliers, rate=None):
    events = [GaussianDpEvent(z) for z in multipliers]
    return Counter(events if rate is None else [PoissonSampledDpEvent(rate, event) for event in events])


@pytest.mark.parametrize("theta", [0.9, 1.0, 1.05])
def test_the_ledger_equals_the_schedule_and_the_budget_is_met_to_a_millionth(theta, tmp_path):
    mechanism = cast(NAME, f"mechanism.theta={theta}").mechanism
    level = mechanism.adapter.start().noise_multiplier
    plan = history(level * relative(theta, m) for m in range(1, 6))
    assert 8 - 1e-6 < price(plan).epsilon(1e-5) <= 8
    play(tmp_path / "run", NAME, f"mechanism.theta={theta}")
    with charged(tmp_path / "run") as ledger:
        assert ledger.book(SERVER).histories(np.arange(24)) == [plan] * 24


def test_the_accountant_prices_the_whole_schedule_under_sampling_too():
    # whoever could be selected pays for every round, however seldom it takes part
    mechanism = cast(
        NAME,
        "mechanism.theta=1.05",
        "mechanism.trust=central",
        "select.kind=poisson",
        "select.rate=0.1",
        "run.rounds=2",
        "budget.epsilon=1",
        "budget.participations=1",
    ).mechanism
    level = mechanism.adapter.start().noise_multiplier
    plan = history([level * relative(1.05, m) for m in range(1, 3)], rate=0.1)
    assert 1 - 1e-6 < price(plan).epsilon(1e-5) <= 1


def test_where_clients_take_part_less_often_the_dearest_rounds_are_paid_for():
    mechanism = cast(NAME, *WORLD, "budget.participations=2", "mechanism.theta=1.3").mechanism
    level = mechanism.adapter.start().noise_multiplier
    assert 8 - 1e-6 < price(history([level, level * 1.3**0.5])).epsilon(1e-5) <= 8
    falling = cast(NAME, *WORLD, "budget.participations=2", "mechanism.theta=0.7").mechanism
    level = falling.adapter.start().noise_multiplier
    assert 8 - 1e-6 < price(history([level * 0.7**2, level * 0.7**1.5])).epsilon(1e-5) <= 8


def test_the_strictest_of_two_guarantees_decides_the_noise():
    # the server sees participations in full, an outsider sampled rounds: the server's is the dearer
    settings = (
        "mechanism.trust=distributed",
        "select.kind=poisson",
        "select.rate=0.1",
        "budget.participations=2",
        "aggregate.kind=plain",
    )
    mechanism = cast(NAME, *settings, "run.rounds=2", "budget.epsilon=1", "mechanism.theta=1.05").mechanism
    level = mechanism.adapter.start().noise_multiplier
    assert 1 - 1e-6 < price(history([level, level * relative(1.05, 2)])).epsilon(1e-5) <= 1


@pytest.mark.parametrize("mode", ["certified", "faithful"])
def test_it_runs_with_partial_participation_dropouts_and_late_joiners(mode, tmp_path):
    outcome = play(tmp_path / "run", NAME, f"mechanism.mode={mode}", *WORLD)
    assert torch.isfinite(outcome.weights).all()
    with charged(tmp_path / "run") as ledger:
        counts = [sum(h.values()) for h in ledger.book(SERVER).histories(np.arange(24))]
        assert counts == ledger.participations.tolist()


@pytest.mark.parametrize(
    "more", [("mechanism.unit=record", "mechanism.trust=distributed"), ("mechanism.trust=central",)]
)
def test_other_units_and_trusts_are_certified(more, tmp_path):
    outcome = play(tmp_path / "run", NAME, *more)
    assert any(entry.status == "certified" and entry.epsilon <= 8 for entry in outcome.certificate.entries)


@pytest.mark.parametrize(
    "more", [(), WORLD, ("mechanism.trust=central", "select.kind=poisson", "select.rate=0.5", "budget.accountant=rdp")]
)
def test_refinement_ends_early_and_stays_within_the_budget(more, tmp_path):
    outcome = play(tmp_path / "run", NAME, *REFINED, *more)
    lines = [json.loads(line) for line in (tmp_path / "run" / "private" / "metrics.jsonl").read_text().splitlines()]
    levels = {round(line["knobs"]["level"], 12) for line in lines}
    assert len(levels) > 1  # noise made the loss rise at least once
    assert outcome.rounds < 12
    assert outcome.stopped == "rounds"
    for entry in outcome.certificate.entries:
        if entry.status == "certified":
            assert entry.epsilon <= 8
            assert "filter" in entry.accountant
    with charged(tmp_path / "run") as ledger:
        for guarantee in ledger.guarantees:
            spent = ledger.book(guarantee).prices(1e-5, "rdp").epsilon
            assert np.isinf(spent).all() or spent.max() <= 8 * 1.1


def test_refinement_needs_public_data():
    with pytest.raises(RecipeError, match="public_fraction"):
        cast(NAME, "mechanism.refine=true")


@pytest.mark.parametrize("theta", [0.9, 1.0, 1.1])
def test_printed_noise_is_equation_eight_and_its_refinement_theorem_two(theta):
    more = (f"mechanism.theta={theta}", "mechanism.clip_norm=5", *REFINED, "run.rounds=30", *WORLD[-2:])
    setup = cast(NAME, FAITHFUL, *more)
    mechanism, sensitivity = setup.mechanism, yuan_sensitivity(5, int(setup.federation.sizes().min()))
    sigma = yuan_sigma(sensitivity, 8, 1e-5, 0.5, yuan_sum(theta, 30))
    assert mechanism.adapter.start().noise_multiplier * 5 == pytest.approx(sigma)
    assert mechanism.claim.epsilon(3, 1e-5) == pytest.approx(8)
    refined = yuan_sigma(sensitivity, 8, 1e-5, 0.5, yuan_refined(theta, 12, 24))
    assert mechanism.adapter.refit.level([1.0] * 12, [1.0] * 12) * 5 == pytest.approx(refined)


@pytest.mark.parametrize(
    ("rounds", "theta", "sigma"),
    [(30, 0.9, 0.027933), (30, 1.0, 0.010730), (30, 1.1, 0.006308), (17, 0.95, 0.010073), (17, 1.05, 0.006740)],
)
def test_equation_eight_with_the_papers_settings(rounds, theta, sigma):
    # 100 users of 600 records, 10 a round, C = 5, ε = 10, δ = 0.001; Eq. (8), which is not the paper's Table II
    owners = np.repeat(np.arange(100), 600)
    told = PublicCounts(100, 60_000, 2, sizes=True)
    people = Federation.of(torch.zeros(60_000, 1), torch.zeros(60_000).long(), owners, test=0.0, public=told)
    paper = ("select.kind=fixed", "select.size=10", "budget.epsilon=10", "budget.delta=0.001", "mechanism.clip_norm=5")
    recipe = Recipe.load(None, [NAME, FAITHFUL, f"mechanism.theta={theta}", f"run.rounds={rounds}", *paper])
    knobs = assemble(recipe, federation=people).mechanism.adapter.start()
    assert knobs.noise_multiplier * 5 == pytest.approx(sigma, abs=5e-7)


def test_printed_weights_stay_in_the_ball_and_what_really_holds_is_told(tmp_path):
    outcome = play(tmp_path / "run", NAME, FAITHFUL, "mechanism.clip_norm=0.5")
    level = cast(NAME, FAITHFUL, "mechanism.clip_norm=0.5").mechanism.adapter.start().noise_multiplier
    exact = price(history(level * relative(1.05, m) for m in range(1, 6))).epsilon(1e-5)
    assert exact > 100  # 2C/|D_k| is not the sensitivity of weights
    for entry in outcome.certificate.entries:
        assert entry.epsilon == pytest.approx(exact)
        assert entry.claimed_epsilon == pytest.approx(8)


def test_printed_refinement_is_claimed_only(tmp_path):
    outcome = play(tmp_path / "run", NAME, FAITHFUL, *REFINED)
    for entry in outcome.certificate.entries:
        assert entry.epsilon is None
        assert "filter" in entry.reason


def test_constants_of_the_loss_shorten_the_schedule(tmp_path):
    more = "mechanism.convergence={gap=2.3, smoothness=1.0, polyak=0.5}"
    setup = cast(NAME, more, "run.rounds=40", "mechanism.theta=1.3")
    rounds = int(setup.mechanism.adapter.start().number("last_round"))
    assert 1 <= rounds < 40
    level = setup.mechanism.adapter.start().noise_multiplier
    plan = history(level * relative(1.3, m) for m in range(1, rounds + 1))
    assert 8 - 1e-6 < price(plan).epsilon(1e-5) <= 8


@pytest.mark.parametrize("mode", [(), (FAITHFUL,)])
def test_fewer_aggregations_have_more_local_steps_between_them(mode):
    more = "mechanism.convergence={gap=2.3, smoothness=1.0, polyak=0.5}"
    setup = cast(NAME, more, "run.rounds=40", "mechanism.theta=1.3", "train.steps=3", *mode)
    rounds = int(setup.mechanism.adapter.start().number("last_round"))
    assert rounds < 40
    assert setup.trainer.settings.steps == round(40 * 3 / rounds)  # τ = T/M
    assert cast(NAME, "run.rounds=40", "train.steps=3").trainer.settings.steps == 3
    assert LocalTraining(epochs=2).stretched(40 / 16).epochs == 5


def test_the_best_number_of_rounds_comes_from_the_noise_that_is_added():
    """Printed noise, a thousand times too small, would plan for many rounds; the certified noise allows few."""
    more = "mechanism.convergence={gap=2.3, smoothness=1.0, polyak=0.05}"
    rounds = {
        mode: int(cast(NAME, more, "run.rounds=40", *mode).mechanism.adapter.start().number("last_round"))
        for mode in ((), (FAITHFUL,))
    }
    assert rounds[()] < rounds[(FAITHFUL,)]

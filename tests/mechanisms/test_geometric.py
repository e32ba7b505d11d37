"""geometric end to end: Eq. (8), the whole schedule within the budget, refinement that never exceeds it, M*."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from played import cast, charged, play
from sordino import recipe as recipes
from sordino.account.accountants.accountant import price
from sordino.account.accountants.published import yuan_refined, yuan_sensitivity, yuan_sigma, yuan_sum
from sordino.adapt.geometric import relative
from sordino.data.federation import Federation
from sordino.errors import RecipeError
from sordino.events import GaussianDpEvent, Guarantee, PoissonSampledDpEvent
from sordino.mechanism import Turn
from sordino.mechanisms.convergence import Convergence
from sordino.random.streams import Streams
from sordino.runs.client_store import ClientStore
from sordino.runs.setup import assemble

NAME = "mechanism.name=geometric"
FAITHFUL = "mechanism.mode=faithful"
SERVER = Guarantee("client", "server", "zero_out")
WORLD = ("dropout.rate=0.3", "dropout.late=0.3", "dropout.late_round=3", "select.kind=fixed", "select.size=12")
REFINED = ("mechanism.refine=true", "data.public_fraction=0.2", "run.rounds=12", "run.evaluate_every=20")


def first_turn(mechanism, width=650):
    return Turn(1, torch.zeros(width), mechanism.adapter.start(), Streams(0), ClientStore())


def history(multipliers, rate=None):
    events = [GaussianDpEvent(z) for z in multipliers]
    return Counter(events if rate is None else [PoissonSampledDpEvent(rate, event) for event in events])


@pytest.mark.parametrize("theta", [0.9, 1.0, 1.05])
def test_the_ledger_equals_the_schedule_and_the_budget_is_met_to_a_millionth(theta, tmp_path):
    mechanism = cast(NAME, f"mechanism.theta={theta}").mechanism
    level = float(mechanism.adapter.start()["noise_multiplier"])
    plan = history(level * relative(theta, m) for m in range(1, 6))
    assert 8 - 1e-6 < price(plan).epsilon(1e-5) <= 8
    play(tmp_path / "run", NAME, f"mechanism.theta={theta}")
    with charged(tmp_path / "run") as ledger:
        assert ledger.book(SERVER).histories(np.arange(24)) == [plan] * 24


def test_the_accountant_prices_the_whole_schedule_under_sampling_too():
    # whoever could be selected pays for every round, however seldom it takes part
    mechanism = cast(
        NAME,
        "mechanism.trust=central",
        "select.kind=poisson",
        "select.rate=0.1",
        "run.rounds=2",
        "budget.epsilon=1",
        "budget.participations=1",
    ).mechanism
    level = float(mechanism.adapter.start()["noise_multiplier"])
    plan = history([level * relative(1.05, m) for m in range(1, 3)], rate=0.1)
    assert 1 - 1e-6 < price(plan).epsilon(1e-5) <= 1


def test_where_clients_take_part_less_often_the_dearest_rounds_are_paid_for():
    mechanism = cast(NAME, *WORLD, "budget.participations=2", "mechanism.theta=1.3").mechanism
    level = float(mechanism.adapter.start()["noise_multiplier"])
    assert 8 - 1e-6 < price(history([level, level * 1.3**0.5])).epsilon(1e-5) <= 8
    falling = cast(NAME, *WORLD, "budget.participations=2", "mechanism.theta=0.7").mechanism
    level = float(falling.adapter.start()["noise_multiplier"])
    assert 8 - 1e-6 < price(history([level * 0.7**2, level * 0.7**1.5])).epsilon(1e-5) <= 8


def test_the_strictest_of_two_guarantees_decides_the_noise():
    # the server sees participations in full, an outsider sampled rounds: the server's is the dearer
    settings = ("mechanism.trust=distributed", "select.kind=poisson", "select.rate=0.1", "budget.participations=2")
    mechanism = cast(NAME, *settings, "run.rounds=2", "budget.epsilon=1").mechanism
    level = float(mechanism.adapter.start()["noise_multiplier"])
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
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
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
    assert float(mechanism.adapter.start()["noise_multiplier"]) * 5 == pytest.approx(sigma)
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
    people = Federation.of(torch.zeros(60_000, 1), torch.zeros(60_000).long(), owners, test=0.0)
    paper = ("select.kind=fixed", "select.size=10", "budget.epsilon=10", "budget.delta=0.001", "mechanism.clip_norm=5")
    recipe = recipes.read(None, [NAME, FAITHFUL, f"mechanism.theta={theta}", f"run.rounds={rounds}", *paper])
    knobs = assemble(recipe, federation=people).mechanism.adapter.start()
    assert float(knobs["noise_multiplier"]) * 5 == pytest.approx(sigma, abs=5e-7)


def test_printed_weights_stay_in_the_ball_and_what_really_holds_is_told(tmp_path):
    outcome = play(tmp_path / "run", NAME, FAITHFUL, "mechanism.clip_norm=0.5")
    level = float(cast(NAME, FAITHFUL, "mechanism.clip_norm=0.5").mechanism.adapter.start()["noise_multiplier"])
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


constants = Convergence(gap=2.3, smoothness=1.0, polyak=0.1)


def test_the_bound_is_equation_forty_one_by_recurrence():
    """G_{m+1} = A·G_m + (L/2)·θ^m·σ², unrolled: the oracle of the closed form, for θ below, at and above 1."""
    for theta in (0.9, 1.0, 1.1):
        contraction = constants.contraction(0.1, 100, 10)
        assert 0 < contraction < 1
        for rounds in (1, 2, 17):
            sigma2 = 1e-3 * yuan_sum(theta, rounds)
            gap = constants.gap
            for m in range(rounds):
                gap = contraction * gap + 0.5 * theta**m * sigma2
            assert constants.bound(rounds, contraction, theta, 1e-3) == pytest.approx(gap)


@settings(max_examples=40, deadline=None)
@given(theta=st.floats(1.0, 1.2), unit=st.floats(1e-6, 1e-2))
def test_the_best_number_of_rounds_is_where_the_bound_turns(theta, unit):
    contraction = constants.contraction(0.5, 100, 10)
    best = constants.best(400, contraction, theta, unit)
    around = [constants.bound(m, contraction, theta, unit) for m in (max(1, best - 1), best, best + 1)]
    assert around[1] == min(around)
    assert constants.best(400, contraction, theta, unit * 10) <= best  # less privacy loss allowed, fewer rounds


def test_constants_of_the_loss_shorten_the_schedule(tmp_path):
    more = "mechanism.convergence={gap=2.3, smoothness=1.0, polyak=0.5}"
    setup = cast(NAME, more, "run.rounds=40", "mechanism.theta=1.3")
    rounds = int(setup.mechanism.adapter.start()["last_round"])
    assert 1 <= rounds < 40
    level = float(setup.mechanism.adapter.start()["noise_multiplier"])
    plan = history(level * relative(1.3, m) for m in range(1, rounds + 1))
    assert 8 - 1e-6 < price(plan).epsilon(1e-5) <= 8

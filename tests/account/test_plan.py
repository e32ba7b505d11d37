"""The planner: what it finds keeps the budget, and what it says about noise is what the noise does."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sordino.account.accountants.accountant import price
from sordino.account.plan.planner import Scenario, solve, trade_off
from sordino.account.plan.schedule import Schedule
from sordino.cli.terminal_chart import chart
from sordino.errors import AccountingError
from sordino.events import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent

KNOWN = Scenario(population=1000, delta=1e-5, cohort=100, rounds=50, epsilon=4.0)


def test_noise_is_found_for_an_outsider():
    found = solve(KNOWN)
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(found.scenario.noise_multiplier))
    assert 4 - 1e-6 <= price({event: 50}).epsilon(1e-5) <= 4
    assert (found.solved, found.accountant) == ("noise_multiplier", "pld")
    assert found.scenario.relation == "add_remove"


def test_a_server_sees_participations_without_amplification():
    found = solve(replace(KNOWN, observer="server"))
    uploads, noise = found.scenario.uploads, found.scenario.noise_multiplier
    assert 4 - 1e-6 <= price({GaussianDpEvent(noise): uploads}).epsilon(1e-5) <= 4
    # All but about one of a thousand clients take part at most `uploads` times.
    rng = np.random.default_rng(0)
    assert (rng.binomial(50, 0.1, 100_000) > uploads).mean() <= 1.2e-3
    assert (rng.binomial(50, 0.1, 100_000) > uploads - 2).mean() > 1e-3
    capped = solve(replace(KNOWN, observer="server", participations=2))
    assert capped.scenario.noise_multiplier < noise
    assert solve(replace(KNOWN, trust="local")).scenario.noise_multiplier == pytest.approx(noise)


def test_rounds_are_the_most_that_fit():
    found = solve(replace(KNOWN, rounds=None, noise_multiplier=2.0, observer="server", participations=None))
    assert found.epsilon <= 4
    assert solve(replace(found.scenario, rounds=found.scenario.rounds + 40, epsilon=None)).epsilon > 4
    with pytest.raises(AccountingError, match="not even one"):
        solve(replace(KNOWN, rounds=None, noise_multiplier=0.1))


def test_the_cohort_is_the_smallest_that_is_heard():
    small = replace(KNOWN, cohort=None, parameters=100, rounds=20)
    found = solve(small, "rdp")
    assert found.solved == "cohort"
    assert found.scenario.signal_to_noise >= 1
    fewer = solve(replace(small, cohort=found.scenario.cohort - 1), "rdp")
    assert fewer.scenario.signal_to_noise < 1
    drowned = solve(replace(small, parameters=10**9), "rdp")
    assert drowned.scenario.cohort == 1000
    assert "times as long" in drowned.scenario.warning


def test_delta_is_found():
    found = solve(replace(KNOWN, noise_multiplier=2.0, delta=None, epsilon=1.0))
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))
    assert found.scenario.delta == price({event: 50}).delta(1.0)
    assert (found.solved, found.epsilon) == ("delta", 1.0)


def test_the_population_is_the_smallest_that_hides_the_cohort():
    found = solve(replace(KNOWN, noise_multiplier=1.0, population=None, epsilon=2.0), "rdp")
    assert found.epsilon <= 2.0
    smaller = replace(found.scenario, population=int(found.scenario.population * 0.99), epsilon=None)
    assert solve(smaller, "rdp").epsilon > 2.0
    with pytest.raises(AccountingError, match="no population"):
        solve(
            replace(KNOWN, noise_multiplier=0.2, population=None, epsilon=0.1, observer="server", participations=9),
            "rdp",
        )


def test_as_many_parameters_as_are_audible():
    plan = replace(KNOWN, noise_multiplier=2.0, epsilon=None)
    assert replace(plan, parameters=plan.audible).signal_to_noise >= 1
    assert replace(plan, parameters=plan.audible + 1).signal_to_noise < 1 + 1e-3


@pytest.mark.parametrize(
    ("trust", "observer", "unit"),
    [("central", "outsider", "client"), ("distributed", "server", "client"), ("local", "server", "client")],
)
def test_the_noise_it_announces_is_the_noise_of_the_mean(trust, observer, unit):
    """Simulates the released mean of clients that all send zero."""
    plan = replace(
        KNOWN, trust=trust, observer=observer, noise_multiplier=2.0, clip_norm=3.0, dropout=0.2, epsilon=None
    )
    rng, arrived = np.random.default_rng(0), 80
    if trust == "local":
        means = rng.normal(0, 2.0 * 3.0, (4000, arrived)).mean(axis=1)
    else:
        means = rng.normal(0, 2.0 * 3.0, 4000) / arrived
    assert means.std() == pytest.approx(plan.stddev, rel=0.05)
    assert plan.signal_to_noise == pytest.approx(3.0 / (plan.stddev * 100))


def test_records_are_hidden_by_their_batches():
    plan = Scenario(
        100, 1e-5, cohort=10, rounds=20, noise_multiplier=1.0, unit="record", record_rate=0.05, steps=8, batch=30
    )
    event = PoissonSampledDpEvent(0.05, GaussianDpEvent(1.0))
    for observer in ("server", "outsider"):
        assert replace(plan, observer=observer).history() == {event: plan.uploads * 8}
    assert solve(plan).epsilon == price({event: plan.uploads * 8}).epsilon(1e-5)


def test_noise_of_records_is_that_of_the_sum_unless_clients_add_it_themselves():
    plan = Scenario(
        100, 1e-5, cohort=25, rounds=20, noise_multiplier=2.0, unit="record", batch=30, clip_norm=0.5, trust="central"
    )
    assert plan.stddev == pytest.approx(2.0 * 0.5 / (25 * 30))
    assert replace(plan, trust="distributed").stddev == plan.stddev
    assert replace(plan, trust="local").stddev == pytest.approx(plan.stddev * 5)
    assert plan.signal_to_noise == pytest.approx(0.5 / (plan.stddev * 100))
    many = replace(plan, trust="local", steps=4)
    assert many.signal_to_noise == pytest.approx(2 * replace(many, steps=1).signal_to_noise)


def test_the_trade_off_moves_the_right_way():
    grid = trade_off(KNOWN, [10, 100], [50, 200])
    noise = {(s.rounds, s.cohort): s.stddev for s in grid}
    assert noise[10, 50] < noise[100, 50]
    assert noise[10, 200] < noise[10, 50]
    assert noise[100, 200] < noise[100, 50]


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": None, "rounds": None},
        {"noise_multiplier": 1.0},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"delta": 1.0},
        {"cohort": 2000},
        {"cohort": -5},
        {"rounds": 0},
        {"dropout": 1.0},
        {"clip_norm": math.nan},
        {"record_rate": 0.0},
        {"trust": "central", "observer": "server"},
        {"cohort": None, "epsilon": None, "noise_multiplier": 1.0},
    ],
)
def test_bad_input(change):
    with pytest.raises(AccountingError):
        solve(replace(KNOWN, **change))


class TestSchedule:
    def test_constant_and_geometric(self):
        assert Schedule.parse("constant", "gaussian", 2.0, 1.0).history(5) == {GaussianDpEvent(2.0): 5}
        falling = Schedule.parse("geometric:0.81", "gaussian", 2.0, 0.5).history(3)
        noises = [event.event.noise_multiplier for event in falling]
        assert noises == pytest.approx([2.0, 1.8, 1.62])
        assert Schedule.parse("constant", "laplace", 2.0, 1.0).history(1) == {LaplaceDpEvent(2.0): 1}

    def test_from_a_file(self, tmp_path):
        path = tmp_path / "noise.txt"
        path.write_text("1.0\n2.0\n2.0\n")
        listed = Schedule.parse(str(path), "gaussian", None, 1.0)
        assert (listed.rounds, listed.limit) == (3, 3)
        assert listed.history(3) == {GaussianDpEvent(1.0): 1, GaussianDpEvent(2.0): 2}
        with pytest.raises(AccountingError, match="exceed"):
            listed.history(4)
        for text, says in (("", "empty"), ("1\nx\n", "number"), ("1\n-2\n", "above 0")):
            path.write_text(text)
            with pytest.raises(AccountingError, match=says):
                Schedule.parse(str(path), "gaussian", None, 1.0)
        with pytest.raises(AccountingError, match="cannot be read"):
            Schedule.parse(str(tmp_path / "none"), "gaussian", None, 1.0)

    @pytest.mark.parametrize(
        ("text", "mechanism", "noise", "rate"),
        [
            ("constant", "gaussian", None, 1.0),
            ("constant", "cauchy", 1.0, 1.0),
            ("constant", "gaussian", 1.0, 0.0),
            ("constant", "gaussian", math.inf, 1.0),
            ("geometric:", "gaussian", 1.0, 1.0),
            ("geometric:-1", "gaussian", 1.0, 1.0),
        ],
    )
    def test_bad_input(self, text, mechanism, noise, rate):
        with pytest.raises(AccountingError):
            Schedule.parse(text, mechanism, noise, rate)
        with pytest.raises(AccountingError):
            Schedule.parse("constant", "gaussian", 1.0, 1.0).history(0)


def test_the_chart_shows_every_series():
    text = chart({"cohort 10": [1.0, 0.5, 0.25], "cohort 20": [0.5, 0.25, 0.125]}, [1, 2, 4])
    body = text.split("└")[0]
    assert body.count("o") == body.count("x") == 3
    lines = body.splitlines()
    assert "o" in lines[0]
    assert "x" in lines[9]
    assert chart({}, [1]) == ""

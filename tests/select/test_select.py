"""Selection: who is asked, how often, and what that is worth against whom."""

import numpy as np
import pytest

from sordino.events import (
    Charge,
    GaussianDpEvent,
    Guarantee,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    Unbounded,
)
from sordino.select.dropout import Dropout
from sordino.select.fixed import Everyone, FixedSize
from sordino.select.poisson import Poisson

EVERYBODY = np.ones(1000, bool)
SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
EVENT = GaussianDpEvent(1.0)


def test_poisson_takes_each_client_with_its_rate(make_turn):
    counts = np.zeros(1000)
    sizes = []
    for round_ in range(1, 401):
        cohort = Poisson(0.1).select(make_turn(round_), EVERYBODY)
        assert (np.diff(cohort) > 0).all()
        counts[cohort] += 1
        sizes.append(len(cohort))
    # binomial: mean 100, variance 90; four standard errors of the mean and a wide window for the variance
    assert abs(np.mean(sizes) - 100) < 4 * np.sqrt(90 / 400)
    assert 90 * 0.7 < np.var(sizes) < 90 * 1.4
    assert 36 * 0.8 < counts.var() < 36 * 1.25


@pytest.mark.parametrize("selector", [Poisson(0.5), FixedSize(300, 1000, blind=False), Everyone()])
def test_only_eligible_clients_are_asked_and_draws_repeat_by_seed(selector, make_turn):
    eligible = EVERYBODY.copy()
    eligible[::2] = False
    cohort = selector.select(make_turn(3), eligible)
    assert (cohort % 2 == 1).all()
    assert np.array_equal(cohort, selector.select(make_turn(3), eligible))
    assert isinstance(selector, Everyone) or not np.array_equal(cohort, selector.select(make_turn(4), eligible))


def test_fixed_size_is_fixed_and_shrinks_with_the_eligible(make_turn):
    for blind in (True, False):
        assert len(FixedSize(10, 1000, blind).select(make_turn(), EVERYBODY)) == 10
    assert len(FixedSize(10, 1000, blind=False).select(make_turn(), np.arange(1000) < 4)) == 4


def test_a_blind_draw_depends_on_nobodys_budget(make_turn):
    part = FixedSize(10, 1000)
    whole, few = (part.select(make_turn(3), can_pay) for can_pay in (EVERYBODY, np.arange(1000) < 4))
    assert np.array_equal(whole, few) and len(few) == 10
    assert not np.array_equal(whole, part.select(make_turn(4), EVERYBODY))


def test_amplification_is_the_outsiders_alone():
    selector = Poisson(0.1)
    assert selector.charge(SERVER, EVENT) == Charge(SERVER, EVENT, "participants")
    assert selector.charge(OUTSIDER, EVENT) == Charge(OUTSIDER, PoissonSampledDpEvent(0.1, EVENT), "eligible")
    record = Guarantee("record", "outsider", "add_remove")
    assert selector.charge(record, EVENT) == Charge(record, EVENT, "participants")
    nothing = Unbounded("because")
    assert selector.charge(OUTSIDER, nothing).event == nothing
    assert Everyone().charge(OUTSIDER, EVENT) == Charge(OUTSIDER, EVENT, "participants")


def test_a_blind_draw_of_fixed_size_amplifies_what_is_said_and_promises_no_absence():
    blind, seeing = FixedSize(10, 1000), FixedSize(10, 1000, blind=False)
    said, nothing = Guarantee("client", "outsider", "zero_out"), Unbounded("because")
    amplified = SampledWithoutReplacementDpEvent(1000, 10, EVENT)
    assert blind.charge(OUTSIDER, EVENT) == Charge(said, amplified, "eligible")
    assert seeing.charge(OUTSIDER, EVENT) == Charge(said, EVENT, "participants")
    assert blind.charge(OUTSIDER, nothing) == Charge(said, nothing, "participants")
    record = Guarantee("record", "outsider", "add_remove")
    for part in (blind, seeing):
        assert part.charge(SERVER, EVENT) == Charge(SERVER, EVENT, "participants")
        assert part.charge(record, EVENT) == Charge(record, EVENT, "participants")


def test_dropouts_follow_the_rate_the_schedule_and_the_stages(make_turn):
    cohort = np.arange(0, 20_000, 2)
    terms = make_turn().but(cohort=cohort).terms
    vanished = Dropout(rate=0.3, stages=("train", "upload", "unmask")).draw(make_turn().randomness, terms)
    for lost in (vanished.train, vanished.upload, vanished.unmask):
        assert abs(len(lost) - 1000) < 5 * np.sqrt(900)
        assert np.isin(lost, cohort).all()
    assert len(vanished.silent) == len(vanished.train) + len(vanished.upload)
    schedule = Dropout(schedule=(0.0, 0.5))
    assert [schedule.rate_at(r) for r in (1, 2, 9)] == [0.0, 0.5, 0.5]
    assert len(schedule.draw(make_turn(1).randomness, terms).silent) == 0


def test_late_joiners_join_once(make_turn):
    world = Dropout(late=0.4, late_round=5)
    randomness = make_turn().randomness
    early = world.joined(randomness, 1, 1000)
    assert np.array_equal(early, world.joined(randomness, 4, 1000))
    assert 520 < early.sum() < 680
    assert world.joined(randomness, 5, 1000).all()

"""The K best by public score, with refusal, ties and weighted draws."""

import numpy as np
import pytest
import torch

from sordino.events import Charge, GaussianDpEvent, Guarantee
from sordino.select.by_score import ByScore
from sordino.terms import Knobs

EVERYBODY = np.ones(6, bool)
SCORES = torch.tensor([0.9, 0.1, 0.5, 0.7, 0.3, 0.2], dtype=torch.float64)


@pytest.fixture
def turn(make_turn):
    return lambda round_=1, merit=SCORES: make_turn(round_).but(knobs=Knobs(1.0, 1.0, {"scores": merit}))


def test_the_best_are_asked(turn):
    assert ByScore(3).select(turn(), EVERYBODY).tolist() == [0, 2, 3]


def test_the_best_of_those_who_are_there(turn):
    assert ByScore(3).select(turn(), np.array([0, 1, 1, 0, 1, 1], bool)).tolist() == [2, 4, 5]


def test_low_scores_are_refused_even_when_places_are_left(turn):
    assert ByScore(6, refuse_below=0.25).select(turn(), EVERYBODY).tolist() == [0, 2, 3, 4]
    assert len(ByScore(6, refuse_below=0.95).select(turn(), EVERYBODY)) == 0


def test_ties_are_broken_afresh_every_round(turn):
    merit = torch.ones(6, dtype=torch.float64)
    counts = np.zeros(6)
    for round_ in range(600):
        counts[ByScore(2).select(turn(round_, merit), EVERYBODY)] += 1
    assert counts.sum() == 1200 and np.abs(counts - 200).max() < 5 * np.sqrt(200 * 2 / 3)


def test_weighted_draws_follow_the_scores_without_replacement(turn):
    firsts, sizes = np.zeros(6), set()
    for round_ in range(3000):
        cohort = ByScore(1, how="weighted").select(turn(round_), EVERYBODY)
        firsts[cohort] += 1
        sizes.add(len(np.unique(ByScore(4, how="weighted").select(turn(round_), EVERYBODY))))
    share = SCORES.numpy() / SCORES.numpy().sum()
    assert sizes == {4}
    assert np.abs(firsts - 3000 * share).max() < 5 * np.sqrt(3000 / 4)
    assert np.abs(firsts - 500).max() > 100  # uniform draws would fail the same window


def test_uniform_draws_do_not_look_at_the_scores(turn):
    counts = {"uniform": np.zeros(6), "weighted": np.zeros(6)}
    for round_ in range(3000):
        for how, seen in counts.items():
            seen[ByScore(2, how=how).select(turn(round_), EVERYBODY)] += 1
    assert all(seen.sum() == 6000 for seen in counts.values())
    far = {how: np.abs(seen - 1000).max() for how, seen in counts.items()}
    assert far["uniform"] < 5 * np.sqrt(3000 * 2 / 9) < far["weighted"]


def test_nothing_is_amplified():
    guarantee, event = Guarantee("record", "outsider", "add_remove"), GaussianDpEvent(1.0)
    assert ByScore(3).charge(guarantee, event) == Charge(guarantee, event, "participants")
    assert ByScore(3).expected(100) == 3 and ByScore(3).expected(2) == 2


def test_pure_and_seeded(turn):
    for part in (ByScore(2), ByScore(2, how="weighted"), ByScore(2, how="uniform")):
        assert np.array_equal(part.select(turn(), EVERYBODY), part.select(turn(), EVERYBODY))

"""Plateau decay: Eq. (15) of A-DPFL, from public or released scores alone."""

import pytest
import torch

from sordino.adapt.plateau import Plateau
from sordino.stages import Released

QUIET = Released(torch.zeros(1), 0.0, ())


def walk(part, make_turn, scores, start=1):
    """Returns the noise multipliers after each round, given the public accuracy at its beginning."""
    knobs, noises = part.start(), []
    for round_, score in enumerate(scores, start):
        turn = make_turn(round_).but(knobs=knobs)
        knobs = part.adapt(turn, QUIET, {} if score is None else {"accuracy": score})
        noises.append(knobs.noise_multiplier)
    return noises


def test_noise_falls_exactly_when_accuracy_rises_by_no_more_than_the_threshold(make_turn):
    part = Plateau(1.0, 2.0, factor=0.7, threshold=0.01)
    noises = walk(part, make_turn, [0.5, 0.6, 0.605, 0.61, 0.7, 0.6])
    assert noises == pytest.approx([2.0, 2.0, 1.4, 0.98, 0.98, 0.686])


def test_the_first_score_is_compared_with_zero(make_turn):
    assert walk(Plateau(1.0, 2.0, threshold=0.1), make_turn, [0.1]) == pytest.approx([1.4])
    assert walk(Plateau(1.0, 2.0, threshold=0.1), make_turn, [0.11]) == pytest.approx([2.0])


def test_only_adjustment_rounds_look_and_compare_with_the_last_look(make_turn):
    part = Plateau(1.0, 1.0, factor=0.5, threshold=0.0, every=2)
    # rounds 2 and 4 look: 0.5 → 0.4 is a plateau although round 3 was higher
    assert walk(part, make_turn, [0.9, 0.5, 0.6, 0.4, 0.1]) == pytest.approx([1, 1, 1, 0.5, 0.5])


def test_without_a_score_nothing_changes(make_turn):
    assert walk(Plateau(1.0, 2.0), make_turn, [None, None]) == [2.0, 2.0]


def test_a_released_count_takes_the_place_of_public_data(make_turn):
    part = Plateau(1.0, 2.0, threshold=0.0, side="right")
    turn = make_turn(1, clip_norm=1.0, noise_multiplier=2.0, score=0.5)
    flat = Released(torch.zeros(1), 0.0, (), side={"right": torch.tensor([0.4])})
    rising = Released(torch.zeros(1), 0.0, (), side={"right": torch.tensor([0.6])})
    assert part.adapt(turn, flat, {"accuracy": 0.9}).noise_multiplier == pytest.approx(1.4)
    assert part.adapt(turn, rising, {"accuracy": 0.1}).noise_multiplier == 2.0
    assert float(part.adapt(turn, rising, {})["score"]) == pytest.approx(0.6)
    assert part.adapt(turn, QUIET, {"accuracy": 0.9}) == turn.knobs  # public scores are not looked at


def test_other_knobs_are_kept_and_the_turn_is_not_changed(make_turn):
    turn = make_turn(1, clip_norm=3.0, noise_multiplier=2.0, score=0.9, other=7.0)
    knobs = Plateau(3.0, 2.0).adapt(turn, QUIET, {"accuracy": 0.1})
    assert float(knobs["other"]) == 7.0 and knobs.clip_norm == 3.0
    assert turn.knobs.noise_multiplier == 2.0 and float(turn.knobs["score"]) == 0.9

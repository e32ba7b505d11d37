"""The printed calibration: it gives the noise that it says, and tells the server about it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from oracles import assert_normal, fits_normal
from played import bounded_of, summed_of
from sordino.aggregate.plain import PlainSum
from sordino.bound.weighted import WeightedClip
from sordino.errors import ProtocolError
from sordino.events import GaussianDpEvent, Unbounded
from sordino.perturb.printed import PrintedShares
from sordino.perturb.shares import GaussianShares
from sordino.stages import Update
from sordino.terms import Knobs, Survivors, Vanished

WIDTH = 4000
NONE = np.empty(0, np.int64)
CLIP, Z = 0.5, 2.0
SPREAD = 2 * CLIP * Z
WEIGHTS = torch.tensor([1.0, 0.5, 0.25, 1.0, 1.0, 0.25])
"""Total weight 4; without client 0 and 3 it is 2."""


class Round:
    """One round of zero updates: what the server receives, and what it makes of it."""

    def __init__(self, make_turn, form, upload=NONE, unmask=NONE, least=2.0, tolerance=0.5, seed=0, round_=1):
        part = PrintedShares(form, WEIGHTS, least, tolerance)
        turn = make_turn(round_, width=WIDTH, cohort=6, seed=seed, clip_norm=CLIP, noise_multiplier=Z)
        senders = np.setdiff1d(np.arange(6), upload)
        group = bounded_of(turn, torch.zeros(len(senders), WIDTH), senders, weights=WEIGHTS[senders])
        sent = part.shield(group, turn)
        self.message, revealed = sent.message, part.reveal(sent.kept, Survivors(round_, senders), turn)
        self.revealed = None if revealed is None else revealed.rows
        self.summed = summed_of(part, PlainSum(None), turn, group, vanished=Vanished(NONE, upload, unmask))
        self.released = part.release(self.summed, turn)


@pytest.mark.parametrize(("form", "weight"), [("plain", 4.0), ("uncalibrated", 4.0), ("extended", 2.0)])
def test_what_leaves_a_client_carries_its_share_of_the_first_noise(form, weight, make_turn):
    rows = Round(make_turn, form).message.rows.numpy()
    for row, share in zip(rows, WEIGHTS.tolist(), strict=True):
        assert_normal(row, SPREAD * np.sqrt(share / weight))


@pytest.mark.parametrize("form", ["plain", "extended"])
@pytest.mark.parametrize("upload", [NONE, np.array([0, 3])])
def test_after_calibration_the_sum_carries_the_full_noise(form, upload, make_turn):
    played = Round(make_turn, form, upload)
    assert_normal(played.summed.total.numpy(), SPREAD)
    assert played.summed.weight == pytest.approx(4.0 if not len(upload) else 2.0)
    assert played.released.stddev == pytest.approx(SPREAD / played.summed.weight)


def test_without_calibration_dropouts_take_their_noise_with_them(make_turn):
    played = Round(make_turn, "uncalibrated", np.array([0, 3]))
    assert_normal(played.summed.total.numpy(), SPREAD * np.sqrt(0.5))
    assert played.released.stddev == pytest.approx(SPREAD * np.sqrt(0.5) / 2)
    assert played.revealed is None


@pytest.mark.parametrize(("form", "upload", "first", "left"), [
    ("plain", NONE, 4.0, 4.0),
    ("plain", np.array([0, 3]), 4.0, 2.0),
    ("extended", NONE, 2.0, 4.0),
    ("extended", np.array([0, 3]), 2.0, 2.0),
])  # fmt: skip
def test_the_server_predicts_the_noise_that_stays_from_what_is_sent(form, upload, first, left, make_turn):
    """The leak: given every e′, what is unknown around the sum has variance v·n′/(n_e + n′) and not v."""
    played = Round(make_turn, form, upload)
    noise = played.message.rows.sum(0).numpy()  # Σe, around which the server sees the sum
    seen = played.revealed.sum(0).numpy()  # −Σe′ = Σ(e − f)
    slope = (noise @ seen) / (seen @ seen)
    assert slope == pytest.approx(left / (first + left), abs=0.05)
    share = left / (first + left)
    assert_normal(noise - slope * seen, SPREAD * np.sqrt(share))
    assert not fits_normal(noise - slope * seen, SPREAD)
    (_, server), *_ = PrintedShares(form, WEIGHTS, 2.0, 1 - left / 4.0).price(Knobs(CLIP, Z))
    assert server.noise_multiplier <= np.sqrt(share) * SPREAD / CLIP * (1 + 1e-9)


def test_thinned_shares_leave_the_server_nothing_to_predict(make_turn):
    part = GaussianShares(tolerance=0.5)
    turn = make_turn(width=WIDTH, cohort=6, clip_norm=CLIP, noise_multiplier=Z)
    everybody = np.arange(6)
    sent = part.shield(bounded_of(turn, torch.zeros(6, WIDTH)), turn)
    seen = part.reveal(sent.kept, Survivors(1, everybody), turn).rows.sum(0).numpy()
    stays = sent.message.rows.sum(0).numpy() - seen
    slope = (stays @ seen) / (seen @ seen)
    assert abs(slope) < 5 * stays.std() / (seen.std() * np.sqrt(WIDTH))
    assert_normal(stays - slope * seen, CLIP * Z)


def test_a_client_that_vanishes_while_noise_is_corrected(make_turn):
    """Plain: it leaves too little (1 − b/n′ + b/n of the variance). Extended: it leaves at least what is promised."""
    lost, late = np.array([0]), np.array([3])  # weight 3 uploads, of which 1 never corrects
    plain = Round(make_turn, "plain", lost, late).summed.total.numpy()
    assert_normal(plain, SPREAD * np.sqrt(1 - 1 / 3 + 1 / 4))
    extended = Round(make_turn, "extended", lost, late).summed.total.numpy()
    assert_normal(extended, SPREAD * np.sqrt(1 - 1 / 3 + 1 / 2))


def test_prices_are_for_the_fewest_survivors():
    def multipliers(form, tolerance):
        (_, server), (_, outsider), (_, presence) = PrintedShares(form, WEIGHTS, 2.0, tolerance).price(Knobs(CLIP, 1.0))
        assert isinstance(presence, Unbounded) and "divided" in presence.reason
        return server.noise_multiplier, outsider.noise_multiplier

    assert multipliers("extended", 0.5) == pytest.approx((np.sqrt(2), 2))
    assert multipliers("plain", 0.0) == pytest.approx((np.sqrt(2), 2))
    assert multipliers("plain", 0.5) == pytest.approx((2 / np.sqrt(3), np.sqrt(2)))
    assert multipliers("uncalibrated", 0.5) == pytest.approx((np.sqrt(2), np.sqrt(2)))


def test_the_price_follows_the_knob():
    part = PrintedShares("extended", WEIGHTS, 2.0)
    assert part.price(Knobs(CLIP, 3.0))[0][1] == GaussianDpEvent(6 * np.sqrt(0.5))


@pytest.mark.parametrize("form", ["plain", "extended", "uncalibrated"])
def test_too_little_weight_aborts(form, make_turn):
    with pytest.raises(ProtocolError, match="is needed"):
        Round(make_turn, form, np.array([0, 1, 3]))


def test_a_cohort_below_the_least_weight_aborts_the_extended_form(make_turn):
    with pytest.raises(ProtocolError, match="is needed"):
        Round(make_turn, "extended", least=4.5)


def test_both_draws_are_fresh_for_every_client_round_and_stage(make_turn):
    played, later = Round(make_turn, "extended"), Round(make_turn, "extended", round_=2)
    draws = [(r.message.rows.numpy(), r.message.rows.numpy() - r.revealed.numpy()) for r in (played, later)]
    rows = np.concatenate([rows for both in draws for rows in both])
    assert np.abs(np.corrcoef(rows) - np.eye(24)).max() < 0.1
    again = Round(make_turn, "extended")
    assert torch.equal(again.message.rows, played.message.rows) and torch.equal(again.revealed, played.revealed)
    assert not torch.equal(Round(make_turn, "extended", seed=1).revealed, played.revealed)


def test_weights_come_from_records_up_to_the_limit(make_turn):
    sizes = np.array([1200, 600, 300, 5000, 1])
    update = Update(np.arange(5), torch.full((5, 4), 10.0), sizes)
    bounded = WeightedClip(1200).bound(update, make_turn(clip_norm=CLIP))
    assert bounded.weights.tolist() == pytest.approx([1, 0.5, 0.25, 1, 1 / 1200])
    np.testing.assert_allclose(bounded.rows.norm(dim=1), CLIP * bounded.weights, rtol=1e-5)
    assert (bounded.rows.norm(dim=1) <= CLIP).all()
    assert WeightedClip().bound(update, make_turn(clip_norm=CLIP)).weights.tolist() == [1] * 5


@pytest.mark.parametrize("form", ["plain", "uncalibrated", "extended"])
def test_a_sum_is_settled_at_the_noise_that_it_says_it_holds(form, make_turn):
    """What is there costs what was quoted; a client that states half of its shares makes the release dearer."""
    part = PrintedShares(form, WEIGHTS, 2.0, 0.5)
    turn = make_turn(1, width=10, cohort=6, clip_norm=CLIP, noise_multiplier=Z)
    whole = Round(make_turn, form).summed
    quoted = part.price(turn.knobs)
    assert part.release(whole, turn).prices == quoted
    planned = {"extended": 1.0}.get(form, 0.5)
    lacking = replace(whole, squared_multiplier=(2 * Z) ** 2 * planned / 4)
    for (_, found), (_, asked) in zip(part.release(lacking, turn).prices[:2], quoted[:2], strict=True):
        assert found.noise_multiplier == pytest.approx(asked.noise_multiplier / 2)
    silent = replace(whole, squared_multiplier=0.0)
    assert part.release(silent, turn).prices[0][1].noise_multiplier == 0.0

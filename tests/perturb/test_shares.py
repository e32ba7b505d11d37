"""Noise shares: the sum carries exactly the target, whoever drops out, and what is revealed says nothing of it."""

import numpy as np
import pytest
import torch

from oracles import assert_normal, fits_normal
from played import bounded_of, summed_of
from sordino.aggregate.plain import PlainSum
from sordino.errors import ProtocolError
from sordino.perturb.shares import GaussianShares, admissible
from sordino.terms import Survivors, Vanished

WIDTH = 4000
NONE = np.empty(0, np.int64)
KNOBS = {"noise_multiplier": 2.0, "clip_norm": 0.5}


def total(make_turn, tolerance, upload=NONE, unmask=NONE, cohort=10, rows=None):
    part = GaussianShares(tolerance=tolerance)
    turn = make_turn(width=WIDTH, cohort=cohort, **KNOBS)
    senders = np.setdiff1d(np.arange(cohort), upload)
    values = torch.zeros(len(senders), WIDTH) if rows is None else rows[senders]
    vanished = Vanished(NONE, upload, unmask)
    got = summed_of(part, PlainSum(1.0, tolerance), turn, bounded_of(turn, values, senders), vanished=vanished)
    left = part.release(got, turn)
    assert left.stddev == pytest.approx(np.sqrt(got.squared_multiplier) * 0.5)
    return got.total


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_the_sum_carries_exactly_the_target_whoever_drops_out(lost, make_turn):
    assert_normal(total(make_turn, 0.3, upload=np.arange(lost)).numpy(), 1.0)


def test_without_tolerance_the_shares_are_the_target_at_once(make_turn):
    assert_normal(total(make_turn, 0.0).numpy(), 1.0)


def test_a_client_that_vanishes_before_it_reveals_leaves_more_noise(make_turn):
    # shares are drawn for n_0 = 5 of 10; two that reveal nothing leave 1/5 each, the other eight 1/10 each
    noise = total(make_turn, 0.5, unmask=np.array([2, 5])).numpy()
    assert_normal(noise, np.sqrt(2 / 5 + 8 / 10))
    assert not fits_normal(noise, 1.0)


def test_fewer_survivors_than_the_shares_were_drawn_for_abort(make_turn):
    with pytest.raises(ProtocolError, match="6 of 10"):
        total(make_turn, 0.3, upload=np.arange(4))


def test_the_sum_is_the_survivors_sum(make_turn):
    rows = torch.randn(10, WIDTH, generator=torch.Generator().manual_seed(3)) * 1e4
    got = total(make_turn, 0.3, upload=np.array([4]), rows=rows)
    assert torch.allclose(got.float(), rows[np.setdiff1d(np.arange(10), [4])].sum(0), atol=10)


def test_what_is_revealed_says_nothing_of_what_stays(make_turn):
    part, turn = GaussianShares(tolerance=0.5), make_turn(width=WIDTH, cohort=10, **KNOBS)
    clients = np.arange(10)
    sent = part.shield(bounded_of(turn, torch.zeros(10, WIDTH)), turn)
    revealed = part.reveal(sent.kept, Survivors(1, clients), turn).rows
    stays, gone = (sent.message.rows - revealed).numpy().ravel(), revealed.numpy().ravel()
    assert_normal(stays, np.sqrt(1 / 10))
    assert_normal(gone, np.sqrt(1 / 5 - 1 / 10))
    n = stays.size
    assert abs(np.corrcoef(stays, gone)[0, 1]) < 5 / np.sqrt(n)
    assert abs(np.corrcoef(stays**2, gone**2)[0, 1]) < 5 / np.sqrt(n)
    assert abs(np.corrcoef(stays**3, gone)[0, 1]) < 5 / np.sqrt(n)


def test_shares_and_thinning_are_fresh_for_every_client_and_round(make_turn):
    part, draws = GaussianShares(tolerance=0.5), []
    for round_ in (1, 2):
        turn = make_turn(round_, width=WIDTH, cohort=4, **KNOBS)
        sent = part.shield(bounded_of(turn, torch.zeros(4, WIDTH)), turn)
        fresh = sent.kept.noise * 0.5 - part.reveal(sent.kept, Survivors(round_, np.arange(4)), turn).rows
        draws += [sent.message.rows.numpy(), fresh.numpy()]
    assert np.abs(np.corrcoef(np.concatenate(draws)) - np.eye(16)).max() < 0.1


@pytest.mark.parametrize(("cohort", "tolerance", "least"), [(10, 0.3, 7), (10, 0.0, 10), (3, 0.5, 2), (0, 0.0, 1)])
def test_the_smallest_admissible_cohort(cohort, tolerance, least):
    assert admissible(cohort, tolerance) == least
